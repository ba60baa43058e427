package pacer

// Against a server with a script, over a real socket: replies in any order, late, wrong, cut, or never.

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand"
	"net"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

const patience = 30 * time.Second

// asking is one request as the server got it.
type asking struct {
	correlation uint64
	// Case of the PacerRequest, and its bytes; zero for a Hello.
	request uint64
	content []byte
}

// server reads requests of one connection, and answers as a test says.
type server struct {
	t  *testing.T
	in inbox
}

func (s *server) next() (asking, error) {
	frame, err := s.in.next()
	if err != nil {
		return asking{}, err
	}
	said, err := readFrame(frame)
	if err != nil {
		return asking{}, err
	}
	if said.number == 2 {
		return asking{correlation: said.correlation}, nil
	}
	_, room, _ := next(said.body) // the family
	body, _, err := next(room)
	if err != nil {
		return asking{}, err
	}
	request, _, err := next(body.bytes)
	return asking{said.correlation, request.number, append([]byte(nil), request.bytes...)}, err
}

func (s *server) say(frames ...[]byte) {
	for _, frame := range frames {
		// The client may be gone: its test says what it saw.
		s.in.socket.Write(frame)
	}
}

// expect reads requests, as many as asked for.
func (s *server) expect(count int) []asking {
	all := make([]asking, count)
	for index := range all {
		var err error
		if all[index], err = s.next(); err != nil {
			s.t.Errorf("request %d of %d: %v", index+1, count, err)
		}
	}
	return all
}

func welcomeFrame(correlation uint64) []byte {
	body := appendNumber(appendNumber(nil, 0x08, 2000), 0x18, 4)
	return appendFrame(nil, correlation, bodyWelcome, body)
}

func errorFrame(correlation uint64, code string) []byte {
	body := appendNumber(appendBytes(appendBytes(nil, 0x0a, []byte(code)), 0x12, []byte("why")), 0x18, 50)
	return appendFrame(nil, correlation, bodyError, body)
}

func roomFrame(correlation uint64, kind byte, content []byte) []byte {
	room := appendBytes([]byte{0x08, roomFamily}, 0x12, appendBytes(nil, kind<<3|2, content))
	return appendFrame(nil, correlation, bodyRoom, room)
}

// bidsFrame has no bids for those reasons.
func bidsFrame(correlation uint64, reasons ...NoBidReason) []byte {
	var content []byte
	for _, reason := range reasons {
		content = appendBytes(content, 0x0a, []byte{0x18, byte(reason)})
	}
	return roomFrame(correlation, caseBids, content)
}

// twice is a frame with the content of another one, twice.
func twice(frame []byte) []byte {
	_, width := binary.Uvarint(frame)
	content := append(append([]byte(nil), frame[width:]...), frame[width:]...)
	return append(appendVarint(nil, uint64(len(content))), content...)
}

func outcomesFrame(correlation uint64, outcomes ...byte) []byte {
	return roomFrame(correlation, caseOutcomes, appendBytes(nil, 0x0a, outcomes))
}

// dial connects to a server that says welcome and goes on with the script, and waits for both at the end.
func dial(t *testing.T, script func(*server)) *Conn {
	t.Helper()
	return dialWith(t, Options{Token: "secret"}, func(s *server) {
		hello := s.expect(1)[0]
		s.say(welcomeFrame(hello.correlation))
		script(s)
	})
}

func dialWith(t *testing.T, options Options, script func(*server)) *Conn {
	t.Helper()
	address := listen(t, script)
	conn, err := Dial(deadline(t), address, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func listen(t *testing.T, script func(*server)) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		socket, err := listener.Accept()
		if err == nil {
			defer socket.Close()
			script(&server{t, inbox{socket: socket, bytes: make([]byte, replyBytesMax)}})
		}
	}()
	t.Cleanup(func() { listener.Close(); <-ended })
	return listener.Addr().String()
}

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func same(t *testing.T, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
}

func isLost(t *testing.T, err error) {
	t.Helper()
	var lost *LostError
	if !errors.As(err, &lost) || !strings.Contains(err.Error(), "no bid requests") {
		t.Fatalf("got %v, want a lost connection", err)
	}
}

// sink reads what else comes, until the client goes away.
func (s *server) sink() { io.Copy(io.Discard, s.in.socket) }

func TestManyGoroutinesGetTheAnswersToTheirRequestsInAnyOrder(t *testing.T) {
	const rounds = 50
	conn := dial(t, func(s *server) {
		for round := 0; round < rounds; round++ {
			asked := s.expect(4)
			for index := len(asked) - 1; index >= 0; index-- {
				request, _, _ := next(asked[index].content)
				number, _, _ := next(request.bytes)
				// The reason is the campaign's number.
				s.say(bidsFrame(asked[index].correlation, NoBidReason(number.value)))
			}
		}
		s.sink()
	})
	ctx := deadline(t)
	var all sync.WaitGroup
	for campaign := uint32(1); campaign <= 4; campaign++ {
		campaign := campaign
		all.Add(1)
		go func() {
			defer all.Done()
			for round := 0; round < rounds; round++ {
				bids, err := conn.Bids(ctx, []BidRequest{{Campaign: campaign}}, nil)
				if err != nil || bids[0].NoBid != NoBidReason(campaign) {
					t.Errorf("campaign %d was answered %v, %v", campaign, bids, err)
					return
				}
			}
		}()
	}
	all.Wait()
}

func TestWhatIsSentIsWhatTheFormatSays(t *testing.T) {
	sent := make(chan asking, 1)
	conn := dial(t, func(s *server) {
		for asked, err := s.next(); err == nil; asked, err = s.next() {
			sent <- asked
			s.say(errorFrame(asked.correlation, "forbidden"))
		}
	})
	var token Token
	for index := range token {
		token[index] = 0xab
	}
	hexToken := strings.Repeat("\xab", 32)
	ctx := deadline(t)
	check := func(err error, request uint64, content string) {
		t.Helper()
		var refused *Error
		if !errors.As(err, &refused) {
			t.Fatal(err)
		}
		same(t, *refused, Error{"forbidden", "why", 50 * time.Millisecond})
		got := <-sent
		same(t, got.request, request)
		same(t, string(got.content), content)
	}
	// The bytes that docs/formats/pacer.md prints.
	_, err := conn.Bids(ctx, []BidRequest{
		{ID: 0x11223344, Campaign: 7, User: 9}, {ID: 0x11223344, Campaign: 300, User: 9},
	}, nil)
	check(err, caseBids, "\x0a\x14\x09\x44\x33\x22\x11\x00\x00\x00\x00\x10\x07\x19\x09\x00\x00\x00\x00\x00\x00\x00"+
		"\x0a\x15\x09\x44\x33\x22\x11\x00\x00\x00\x00\x10\xac\x02\x19\x09\x00\x00\x00\x00\x00\x00\x00")
	_, err = conn.Bids(ctx, []BidRequest{{Key: 1, PriceMicros: 2500}}, nil)
	check(err, caseBids, "\x0a\x0c\x21\x01\x00\x00\x00\x00\x00\x00\x00\x28\xc4\x13")
	_, err = conn.Wins(ctx, []Win{{token, 2100}}, nil)
	check(err, caseWins, "\x0a\x25\x0a\x20"+hexToken+"\x10\xb4\x10")
	_, err = conn.Losses(ctx, []Token{token}, nil)
	check(err, caseLosses, "\x0a\x20"+hexToken)
	_, err = conn.PutCampaign(ctx, "shoes", []byte("{}"))
	check(err, casePutCampaign, "\x0a\x05shoes\x12\x02{}")
	check(conn.EndCampaign(ctx, "shoes"), caseEndCampaign, "\x0a\x05shoes")
	// The client goes on after refusals.
	same(t, conn.Lost(), nil)
}

func TestWhatIsTooMuchIsNotSent(t *testing.T) {
	conn := dial(t, func(s *server) {
		asked := s.expect(1)[0]
		same(s.t, asked.request, uint64(caseEndCampaign))
		s.say(roomFrame(asked.correlation, caseCampaignEnded, nil))
		s.sink()
	})
	ctx := deadline(t)
	for _, items := range []int{0, ItemsMax + 1} {
		_, err := conn.Bids(ctx, make([]BidRequest, items), nil)
		same(t, err, ErrItems)
		_, err = conn.Wins(ctx, make([]Win, items), nil)
		same(t, err, ErrItems)
		_, err = conn.Losses(ctx, make([]Token, items), nil)
		same(t, err, ErrItems)
	}
	// The script's server reads 2,000 bytes, and takes four requests at once.
	for try := 0; try < 5; try++ {
		_, err := conn.PutCampaign(ctx, "shoes", make([]byte, 2000))
		if err == nil || !strings.Contains(err.Error(), "the server reads 2000") {
			t.Fatal(err)
		}
	}
	same(t, conn.EndCampaign(ctx, "shoes"), nil)
}

func TestACallEndsWithItsContextAndItsLateAnswerIsNotAnothers(t *testing.T) {
	var late []asking
	isAsked, goOn := make(chan struct{}), make(chan struct{})
	conn := dial(t, func(s *server) {
		late = s.expect(4)
		close(isAsked)
		<-goOn
		for _, asked := range late {
			s.say(bidsFrame(asked.correlation, Throttled))
		}
		asked := s.expect(1)[0]
		s.say(bidsFrame(asked.correlation, NoLease))
		s.sink()
	})
	ctx, cancel := context.WithCancel(deadline(t))
	failed := make(chan error)
	for call := 0; call < 4; call++ {
		go func() {
			_, err := conn.Bids(ctx, make([]BidRequest, 1), nil)
			failed <- err
		}()
	}
	<-isAsked
	cancel()
	for call := 0; call < 4; call++ {
		err := <-failed
		if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "the outcome is unknown") {
			t.Fatal(err)
		}
	}
	// All four are still in flight, so a fifth waits, and its context ends, too.
	brief, cancelBrief := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancelBrief()
	_, err := conn.Bids(brief, make([]BidRequest, 1), nil)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	close(goOn)
	bids, err := conn.Bids(deadline(t), make([]BidRequest, 1), nil)
	same(t, err, nil)
	same(t, bids, []Bid{{NoBid: NoLease}})
}

func TestALostConnectionEndsAllCalls(t *testing.T) {
	conn := dial(t, func(s *server) { s.expect(2) })
	ctx := deadline(t)
	failed := make(chan error)
	go func() { _, err := conn.Wins(ctx, make([]Win, 1), nil); failed <- err }()
	go func() { _, err := conn.Bids(ctx, make([]BidRequest, 1), nil); failed <- err }()
	isLost(t, <-failed)
	isLost(t, <-failed)
	isLost(t, conn.Lost())
	_, err := conn.Bids(ctx, make([]BidRequest, 1), nil)
	isLost(t, err)
}

func TestCloseEndsCallsUnderWay(t *testing.T) {
	isAsked := make(chan struct{})
	conn := dial(t, func(s *server) { s.expect(1); close(isAsked); s.sink() })
	failed := make(chan error)
	go func() { _, err := conn.Bids(deadline(t), make([]BidRequest, 1), nil); failed <- err }()
	<-isAsked
	conn.Close()
	if err := <-failed; !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
}

func TestAWrongReplyEndsTheConnection(t *testing.T) {
	token31 := appendBytes(nil, 0x0a, appendBytes(nil, 0x12, make([]byte, 31)))
	for name, say := range map[string]func(correlation uint64) []byte{
		"one bid too few":           func(c uint64) []byte { return bidsFrame(c, NoLease) },
		"one bid too many":          func(c uint64) []byte { return bidsFrame(c, NoLease, NoLease, NoLease) },
		"outcomes":                  func(c uint64) []byte { return outcomesFrame(c, 1, 1) },
		"a token of 31 bytes":       func(c uint64) []byte { return roomFrame(c, caseBids, append(token31, token31...)) },
		"another correlation":       func(c uint64) []byte { return bidsFrame(c+1, NoLease, NoLease) },
		"an earlier use":            func(c uint64) []byte { return bidsFrame(c-1<<16, NoLease, NoLease) },
		"an over-long frame":        func(uint64) []byte { return appendVarint(nil, replyBytesMax) },
		"no length":                 func(uint64) []byte { return []byte{0xff, 0xff, 0xff, 0xff, 0xff} },
		"an empty frame":            func(uint64) []byte { return []byte{0} },
		"two bodies":                func(c uint64) []byte { return twice(bidsFrame(c, NoLease, NoLease)) },
		"another family":            func(c uint64) []byte { return appendFrame(nil, c, bodyRoom, []byte{0x08, 4, 0x12, 0}) },
		"a body of the ledger":      func(c uint64) []byte { return appendFrame(nil, c, 9, nil) },
		"the end of the connection": func(uint64) []byte { return errorFrame(0, "frame_too_large") },
	} {
		say := say
		t.Run(name, func(t *testing.T) {
			conn := dial(t, func(s *server) {
				s.say(say(s.expect(1)[0].correlation))
				s.sink()
			})
			_, err := conn.Bids(deadline(t), make([]BidRequest, 2), nil)
			isLost(t, err)
		})
	}
}

func TestATokenThatIsRefusedIsAnError(t *testing.T) {
	for _, correlation := range []uint64{0, 1} {
		address := listen(t, func(s *server) { s.expect(1); s.say(errorFrame(correlation, "unauthenticated")) })
		_, err := Dial(deadline(t), address, Options{Token: "wrong"})
		var refused *Error
		if !errors.As(err, &refused) || refused.Code != "unauthenticated" {
			t.Fatal(err)
		}
	}
	_, err := Dial(deadline(t), listen(t, func(s *server) {}), Options{Token: strings.Repeat("x", helloBytesMax)})
	if err == nil || !strings.Contains(err.Error(), "the server reads 8192") {
		t.Fatal(err)
	}
}

func TestASilentServerDoesNotHoldUpDial(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	_, err := Dial(ctx, listen(t, (*server).sink), Options{Token: "secret"})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
}

// A server that changes good replies at random, from a seed: what is taken has as many answers as were asked for.
func TestChangedRepliesAreTakenWholeOrNotAtAll(t *testing.T) {
	chance := rand.New(rand.NewSource(1))
	content := appendBytes(nil, 0x0a, appendBytes([]byte{0x08, 0xc4, 0x13}, 0x12, make([]byte, 32)))
	content = append(content, content...)
	taken, refused := 0, 0
	for round := 0; round < 200_000; round++ {
		frame := roomFrame(1<<16, caseBids, content)
		if round%2 == 0 {
			frame = outcomesFrame(1<<16, 1, 7)
		}
		for changes := 1 + chance.Intn(3); changes > 0; changes-- {
			frame[1+chance.Intn(len(frame)-1)] = byte(chance.Intn(256))
		}
		_, width := binary.Uvarint(frame)
		what := call{kind: caseBids, items: 2}
		if round%2 == 0 {
			what.kind = caseOutcomes
		}
		said, err := readFrame(frame[width:])
		if err == nil {
			err = what.read(said)
		}
		switch {
		case err != nil:
			refused++
		case what.err == nil:
			taken++
			if len(what.bids)+len(what.outcomes) != 2 {
				t.Fatalf("round %d: %+v out of %x", round, what, frame)
			}
		}
	}
	if taken == 0 || refused == 0 {
		t.Fatalf("%d were taken and %d refused", taken, refused)
	}
}

// Of packets that are asked for with a slice that has room, nothing is allocated.
func TestBidsAllocateNothing(t *testing.T) {
	const packets = 2000
	conn := dial(t, func(s *server) {
		// No allocation here either: the correlation is copied from the request into one answer.
		answer := append([]byte(nil), bidsFrame(1<<42, make([]NoBidReason, 10)...)...)
		_, width := binary.Uvarint(answer)
		for {
			frame, err := s.in.next()
			if err != nil {
				return
			}
			said, _ := readFrame(frame)
			correlation := said.correlation
			for index := 0; index < 7; index++ {
				answer[width+1+index] = byte(correlation) | 0x80
				correlation >>= 7
			}
			answer[width+7] &= 0x7f
			s.in.socket.Write(answer)
		}
	})
	ctx := context.Background()
	requests, bids := make([]BidRequest, 10), make([]Bid, 0, 10)
	for index := range requests {
		requests[index] = BidRequest{ID: 1, Campaign: 2, User: 3, Key: 4, PriceMicros: 5}
	}
	ask := func() {
		var err error
		if bids, err = conn.Bids(ctx, requests, bids[:0]); err != nil {
			t.Fatal(err)
		}
	}
	// Buffers grow once, and the runtime allocates what waiting goroutines need.
	for packet := 0; packet < packets; packet++ {
		ask()
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for packet := 0; packet < packets; packet++ {
		ask()
	}
	runtime.ReadMemStats(&after)
	if each := float64(after.Mallocs-before.Mallocs) / packets; each >= 0.1 {
		t.Fatalf("%.2f allocations a packet", each)
	}
}
