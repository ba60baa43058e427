package pacer

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"time"
)

const (
	// Longest reply that is read. 256 bids take less than 11 KiB, an error less than 1.
	replyBytesMax = 64 << 10
	// Longest frame that the server reads before it knows who we are.
	helloBytesMax = 8 << 10
	// Most requests in flight, if the server takes as many: their number has two bytes in a correlation.
	inFlightMax = 1 << 16
	// A server that takes no byte of what is sent to it for so long is taken for lost.
	writeTimeout = 10 * time.Second
	// A buffer for requests that has grown beyond this is not kept.
	outBytesKept = 1 << 20
)

// Options of a connection.
type Options struct {
	// A service's token, or one that POST /v1/login has given.
	Token string
	// For a port with TLS; nil is for one without.
	TLS *tls.Config
	// Most requests in flight; a call beyond waits for an answer to another. Zero means as many as the server takes,
	// and 1,024 at most.
	InFlight int
}

// Conn is one connection, good for many goroutines. After its first failure all calls fail with that *LostError.
type Conn struct {
	socket        net.Conn
	frameBytesMax int

	slots []slot
	// Numbers of the slots that are free.
	free chan uint16
	// Closed when the connection has ended; then lost says why.
	ended chan struct{}

	// Guards all below, and the slots.
	mutex sync.Mutex
	lost  *LostError
	// Frames that wait for the writer.
	out []byte
	// Has an element if out may have frames.
	wake chan struct{}
}

// slot is the place of one request in flight. Its correlation is use<<16 | number of the slot, so that a late answer is
// not taken for that to the next request.
type slot struct {
	use   uint64
	state state
	call  call
	// Has an element when the reader has read the answer into the call.
	done chan struct{}
}

// state of a slot, under the mutex:
//
//	idle ──ask──▶ asked ──answer──▶ idle
//	                │ the context ends
//	                └──▶ abandoned ──answer──▶ idle
type state uint8

const (
	// Free, or the reader or the caller has the call.
	idle state = iota
	asked
	abandoned
)

// call is what is asked and what is answered.
type call struct {
	// Case of the PacerReply that must come.
	kind     uint64
	items    int
	bids     []Bid
	outcomes []Outcome
	put      CampaignPut
	err      error
}

// Dial connects to a host and port, such as localhost:7420, and shows the token. The context is for this call only;
// without a deadline it may wait for ever. What the server says against the token is an *Error.
func Dial(ctx context.Context, address string, options Options) (*Conn, error) {
	var socket net.Conn
	var err error
	if options.TLS != nil {
		dialer := tls.Dialer{Config: options.TLS}
		socket, err = dialer.DialContext(ctx, "tcp", address)
	} else {
		var dialer net.Dialer
		socket, err = dialer.DialContext(ctx, "tcp", address)
	}
	if err != nil {
		return nil, &LostError{Cause: err}
	}
	return Over(ctx, socket, options)
}

// Over shows the token over a connection that is open already, and which it closes if that fails. Options.TLS does not
// matter here.
func Over(ctx context.Context, socket net.Conn, options Options) (*Conn, error) {
	told, err := letIn(ctx, socket, options.Token)
	if err != nil {
		socket.Close()
		return nil, err
	}
	inFlight := options.InFlight
	if inFlight <= 0 {
		inFlight = 1024
	}
	for _, most := range []int{int(told.inFlightMax), inFlightMax} {
		if inFlight > most {
			inFlight = most
		}
	}
	c := &Conn{
		socket:        socket,
		frameBytesMax: int(told.frameBytesMax),
		slots:         make([]slot, inFlight),
		free:          make(chan uint16, inFlight),
		ended:         make(chan struct{}),
		wake:          make(chan struct{}, 1),
	}
	for number := range c.slots {
		c.slots[number].done = make(chan struct{}, 1)
		c.free <- uint16(number)
	}
	go c.write()
	go c.read()
	return c, nil
}

// letIn shows the token and reads the server's bounds. It ends with the context.
func letIn(ctx context.Context, socket net.Conn, token string) (welcome, error) {
	isDone, isStopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(isStopped)
		select {
		case <-ctx.Done():
			// A time that is over ends every read and write.
			socket.SetDeadline(time.Unix(1, 0))
		case <-isDone:
		}
	}()
	told, err := greet(socket, token)
	close(isDone)
	<-isStopped
	if ctx.Err() != nil {
		return welcome{}, inTime(ctx.Err(), true)
	}
	return told, err
}

func greet(socket net.Conn, token string) (welcome, error) {
	hello := appendHello(nil, 1, token)
	if len(hello) > helloBytesMax {
		return welcome{}, tooLarge(len(hello), helloBytesMax)
	}
	if _, err := socket.Write(hello); err != nil {
		return welcome{}, &LostError{Cause: err}
	}
	in := inbox{socket: socket, bytes: make([]byte, helloBytesMax)}
	frame, err := in.next()
	if err != nil {
		return welcome{}, &LostError{Cause: err}
	}
	said, err := readFrame(frame)
	if err == nil && said.number == bodyError {
		refusal, err := readError(said.body)
		if err == nil {
			return welcome{}, refusal
		}
	}
	// Nothing comes behind the welcome before something is asked.
	if err != nil || said.number != bodyWelcome || said.correlation != 1 || in.taken != in.filled {
		return welcome{}, &LostError{Cause: errMalformed}
	}
	told, err := readWelcome(said.body)
	if err != nil || told.inFlightMax == 0 {
		return welcome{}, &LostError{Cause: errMalformed}
	}
	return told, nil
}

// Close ends the connection; calls under way fail.
func (c *Conn) Close() error {
	c.end(ErrClosed)
	return nil
}

// Lost is nil while the connection is good, and then what has ended it.
func (c *Conn) Lost() error {
	select {
	case <-c.ended:
		return c.lost
	default:
		return nil
	}
}

// end keeps the first cause, and wakes everybody who waits.
func (c *Conn) end(cause error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.lost == nil {
		c.lost = &LostError{Cause: cause}
		close(c.ended)
		c.socket.Close()
	}
}

// write sends what waits, all of it in one go, until the connection ends.
func (c *Conn) write() {
	var sending []byte
	for {
		select {
		case <-c.wake:
		case <-c.ended:
			return
		}
		c.mutex.Lock()
		sending, c.out = c.out, sending[:0]
		c.mutex.Unlock()
		if len(sending) == 0 {
			continue
		}
		c.socket.SetWriteDeadline(time.Now().Add(writeTimeout))
		if _, err := c.socket.Write(sending); err != nil {
			c.end(err)
			return
		}
		if cap(sending) > outBytesKept {
			sending = nil
		}
	}
}

// read hands out replies until the connection ends.
func (c *Conn) read() {
	in := inbox{socket: c.socket, bytes: make([]byte, replyBytesMax)}
	for {
		frame, err := in.next()
		if err == nil {
			err = c.take(frame)
		}
		if err != nil {
			c.end(err)
			return
		}
	}
}

// take reads a reply into the call that waits for it.
func (c *Conn) take(frame []byte) error {
	said, err := readFrame(frame)
	if err != nil {
		return err
	}
	if said.correlation == 0 && said.number == bodyError {
		// The server speaks of the connection, and closes it.
		refusal, err := readError(said.body)
		if err != nil {
			return err
		}
		return refusal
	}
	number := said.correlation & (inFlightMax - 1)
	if number >= uint64(len(c.slots)) {
		return errMalformed
	}
	s := &c.slots[number]
	c.mutex.Lock()
	was := s.state
	isExpected := was != idle && s.use == said.correlation>>16
	if isExpected {
		s.state = idle
	}
	c.mutex.Unlock()
	if !isExpected {
		return errMalformed
	}
	if was == abandoned {
		c.free <- uint16(number)
		return nil
	}
	err = s.call.read(said)
	if err != nil {
		s.call.err = &LostError{Cause: err}
	}
	s.done <- struct{}{}
	return err
}

func (c *call) read(said reply) error {
	if said.number == bodyError {
		refusal, err := readError(said.body)
		if err == nil {
			c.err = refusal
		}
		return err
	}
	if said.number != bodyRoom {
		return errMalformed
	}
	kind, content, err := readRoom(said.body)
	if err != nil {
		return err
	}
	if kind != c.kind {
		return errMalformed
	}
	switch kind {
	case caseBids:
		c.bids, err = readBids(content, c.bids, c.items)
	case caseOutcomes:
		c.outcomes, err = readOutcomes(content, c.outcomes, c.items)
	case caseCampaignPut:
		c.put, err = readPut(content)
	}
	return err
}

// ask sends what write appends to a buffer, and waits until the answer is in the call.
func (c *Conn) ask(ctx context.Context, what *call, write func(out []byte, correlation uint64) []byte) error {
	number, err := c.acquire(ctx)
	if err != nil {
		return err
	}
	s := &c.slots[number]
	if err := c.send(s, number, what, write); err != nil {
		c.free <- number
		return err
	}
	select {
	case <-s.done:
	case <-ctx.Done():
		if c.abandon(s) {
			return inTime(ctx.Err(), true)
		}
		// It is being read at this moment, into what is the caller's.
		<-s.done
	case <-c.ended:
		if c.abandon(s) {
			return c.lost
		}
		<-s.done
	}
	*what = s.call
	// Nothing of the caller's is kept.
	s.call = call{}
	c.free <- number
	return what.err
}

// acquire waits for a free slot.
func (c *Conn) acquire(ctx context.Context) (uint16, error) {
	if err := c.Lost(); err != nil {
		return 0, err
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	select {
	case number := <-c.free:
		return number, nil
	case <-ctx.Done():
		return 0, inTime(ctx.Err(), false)
	case <-c.ended:
		return 0, c.lost
	}
}

// send gives a request to the writer, unless the server would not read it.
func (c *Conn) send(s *slot, number uint16, what *call, write func([]byte, uint64) []byte) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	s.use++
	before := len(c.out)
	c.out = write(c.out, s.use<<16|uint64(number))
	if bytes := len(c.out) - before; bytes > c.frameBytesMax {
		c.out = c.out[:before]
		return tooLarge(bytes, c.frameBytesMax)
	}
	s.call, s.state = *what, asked
	select {
	case c.wake <- struct{}{}:
	default:
	}
	return nil
}

// abandon leaves a request alone whose answer the reader has not begun to read.
func (c *Conn) abandon(s *slot) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if s.state != asked {
		return false
	}
	s.state = abandoned
	return true
}

// inbox cuts what a socket receives into frames.
type inbox struct {
	socket        net.Conn
	bytes         []byte
	taken, filled int
}

// next is the next frame, which is good until the call after.
func (in *inbox) next() ([]byte, error) {
	for {
		unread := in.bytes[in.taken:in.filled]
		length, width := binary.Uvarint(unread[:atMost(len(unread), 5)])
		if width < 0 || (width == 0 && len(unread) >= 5) {
			return nil, errMalformed
		}
		if width > 0 && length > uint64(len(in.bytes)-5) {
			return nil, tooLong(length, len(in.bytes)-5)
		}
		if width > 0 && uint64(len(unread)-width) >= length {
			in.taken += width + int(length)
			return unread[width : width+int(length)], nil
		}
		if in.taken > 0 {
			in.filled = copy(in.bytes, unread)
			in.taken = 0
		}
		count, err := in.socket.Read(in.bytes[in.filled:])
		in.filled += count
		if count == 0 && err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
}

func atMost(number, most int) int {
	if number < most {
		return number
	}
	return most
}
