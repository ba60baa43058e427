// A pacer as many would write it in Go: a goroutine for each connection, a mutex for each campaign, all in memory. It
// answers the frames of crates/wire/pacer.proto for `storm bench-pacer`.
//
// In its favour: nothing is kept on disk, no money is leased or settled, there are no flights, no strategy and no
// frequency caps, and a token is neither signed nor remembered, so that a win may come twice. It decodes in place and
// answers all packets that have come in one write.
package main

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"sync"
)

// Longest frame that is read; 256 requests take less than 11 KiB.
const frameBytesMax = 64 << 10

const (
	itemsMax   = 256
	tokenBytes = 32
	roomFamily = 5
)

// Reasons and outcomes of pacer.proto.
const (
	campaignUnknown = 1
	noLease         = 6
	priceAboveCap   = 7
	outcomeTaken    = 1
	outcomeInvalid  = 4
	outcomeAboveBid = 5
)

var errMalformed = errors.New("malformed frame")

// A campaign's money, in micros.
type campaign struct {
	mutex    sync.Mutex
	budget   uint64
	reserved uint64
	spent    uint64
	price    uint32
}

// reserve takes the most that a win can cost from what is left.
func (c *campaign) reserve(asked uint32) (price uint32, reason byte) {
	price = c.price
	if asked > price {
		return 0, priceAboveCap
	}
	if asked != 0 {
		price = asked
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.budget-c.reserved-c.spent < uint64(price) {
		return 0, noLease
	}
	c.reserved += uint64(price)
	return price, 0
}

// settle ends a reservation, of which so much was spent.
func (c *campaign) settle(reserved, spent uint32) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.reserved < uint64(reserved) {
		return false
	}
	c.reserved -= uint64(reserved)
	c.spent += uint64(spent)
	return true
}

type server struct {
	// By number; the first has number 1.
	campaigns []campaign
}

func (s *server) campaign(number uint64) *campaign {
	if number == 0 || number > uint64(len(s.campaigns)) {
		return nil
	}
	return &s.campaigns[number-1]
}

func main() {
	listen := flag.String("listen", "127.0.0.1:7171", "address to listen at")
	listenHTTP := flag.String("http", "", "address to answer OpenRTB at over HTTP; none if empty")
	campaigns := flag.Int("campaigns", 1000, "how many campaigns there are, numbered from 1")
	budget := flag.Uint64("budget-micros", 1<<60, "what each may spend, in millionths")
	price := flag.Uint("price-micros", 2500, "what each bids, in millionths")
	flag.Parse()
	s := &server{campaigns: make([]campaign, *campaigns)}
	for index := range s.campaigns {
		s.campaigns[index].budget = *budget
		s.campaigns[index].price = uint32(*price)
	}
	if *listenHTTP != "" {
		go func() { log.Fatal(s.serveHTTP(*listenHTTP)) }()
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("listening at %s with %d campaigns", listener.Addr(), len(s.campaigns))
	for {
		connection, err := listener.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go func() {
			defer connection.Close()
			if err := s.serve(connection); err != nil && !errors.Is(err, io.EOF) {
				log.Printf("%s: %v", connection.RemoteAddr(), err)
			}
		}()
	}
}

// serve answers whole frames as they come.
func (s *server) serve(connection net.Conn) error {
	inbox := make([]byte, 256<<10)
	var outbox []byte
	filled := 0
	for {
		read, err := connection.Read(inbox[filled:])
		if err != nil {
			return err
		}
		filled += read
		taken := 0
		outbox = outbox[:0]
		for {
			frame, end, err := split(inbox[taken:filled])
			if err != nil {
				return err
			}
			if end == 0 {
				break
			}
			if outbox, err = s.answer(outbox, frame); err != nil {
				return err
			}
			taken += end
		}
		copy(inbox, inbox[taken:filled])
		filled -= taken
		if len(outbox) > 0 {
			if _, err := connection.Write(outbox); err != nil {
				return err
			}
		}
	}
}

// split finds the frame at the beginning of bytes; its end is 0 while it is not whole.
func split(bytes []byte) (frame []byte, end int, err error) {
	length, width := binary.Uvarint(bytes)
	if width < 0 || length > frameBytesMax {
		return nil, 0, errMalformed
	}
	if width == 0 || uint64(len(bytes)-width) < length {
		return nil, 0, nil
	}
	end = width + int(length)
	return bytes[width:end], end, nil
}

// A field of a message: its number, and its content as a number or as bytes.
type field struct {
	number uint64
	value  uint64
	bytes  []byte
}

// next cuts a field off a message.
func next(message []byte) (field, []byte, error) {
	tag, width := binary.Uvarint(message)
	if width <= 0 {
		return field{}, nil, errMalformed
	}
	message = message[width:]
	switch tag & 7 {
	case 0:
		value, width := binary.Uvarint(message)
		if width <= 0 {
			return field{}, nil, errMalformed
		}
		return field{number: tag >> 3, value: value}, message[width:], nil
	case 1:
		if len(message) < 8 {
			return field{}, nil, errMalformed
		}
		return field{number: tag >> 3, value: binary.LittleEndian.Uint64(message)}, message[8:], nil
	case 2:
		length, width := binary.Uvarint(message)
		if width <= 0 || uint64(len(message)-width) < length {
			return field{}, nil, errMalformed
		}
		message = message[width:]
		return field{number: tag >> 3, bytes: message[:length]}, message[length:], nil
	}
	return field{}, nil, fmt.Errorf("%w: wire type %d", errMalformed, tag&7)
}

func (s *server) answer(out, frame []byte) ([]byte, error) {
	var correlation uint64
	for len(frame) > 0 {
		f, rest, err := next(frame)
		if err != nil {
			return nil, err
		}
		frame = rest
		switch f.number {
		case 1:
			correlation = f.value
		case 2:
			out = welcome(out, correlation)
		case 15:
			if out, err = s.answerRoom(out, correlation, f.bytes); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// welcome answers a Hello, whatever its token, so that a client of Tidegate may ask as it always does.
func welcome(out []byte, correlation uint64) []byte {
	start := len(out)
	out = binary.AppendUvarint(append(out, 0, 0x08), correlation)
	out = append(out, 0x12, 0)
	out[start] = byte(len(out) - start - 1)
	return out
}

func (s *server) answerRoom(out []byte, correlation uint64, room []byte) ([]byte, error) {
	for len(room) > 0 {
		f, rest, err := next(room)
		if err != nil {
			return nil, err
		}
		room = rest
		if f.number == 1 && f.value != roomFamily {
			return nil, fmt.Errorf("family %d is not the pacer's", f.value)
		}
		if f.number != 2 {
			continue
		}
		request, _, err := next(f.bytes)
		if err != nil {
			return nil, err
		}
		switch request.number {
		case 1:
			out, err = s.bids(out, correlation, request.bytes)
		case 2:
			out, err = s.wins(out, correlation, request.bytes)
		default:
			err = fmt.Errorf("%w: request %d", errMalformed, request.number)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// A frame of the pacer with two bytes for each length, filled in when it is closed.
type openFrame struct{ start, items int }

func open(out []byte, correlation uint64, reply byte) ([]byte, openFrame) {
	start := len(out)
	out = append(out, 0, 0, 0x08)
	out = binary.AppendUvarint(out, correlation)
	out = append(out, 15<<3|2, 0, 0, 0x08, roomFamily, 0x12, 0, 0, reply<<3|2, 0, 0)
	return out, openFrame{start, len(out)}
}

func (f openFrame) close(out []byte) {
	for _, content := range [4]int{f.items, f.items - 3, f.items - 8, f.start + 2} {
		setLength(out, content)
	}
}

func setLength(out []byte, content int) {
	length := len(out) - content
	out[content-2], out[content-1] = byte(length)|0x80, byte(length>>7)
}

func (s *server) bids(out []byte, correlation uint64, requests []byte) ([]byte, error) {
	out, frame := open(out, correlation, 1)
	count := 0
	for len(requests) > 0 {
		item, rest, err := next(requests)
		if err != nil {
			return nil, err
		}
		requests = rest
		if item.number != 1 {
			continue
		}
		var id, number, price uint64
		for message := item.bytes; len(message) > 0; {
			f, rest, err := next(message)
			if err != nil {
				return nil, err
			}
			message = rest
			switch f.number {
			case 1:
				id = f.value
			case 2:
				number = f.value
			case 5:
				price = f.value
			}
		}
		count++
		out = s.bid(out, id, number, uint32(price))
	}
	if count == 0 || count > itemsMax {
		return nil, fmt.Errorf("%w: %d requests", errMalformed, count)
	}
	frame.close(out)
	return out, nil
}

func (s *server) bid(out []byte, id, number uint64, asked uint32) []byte {
	c := s.campaign(number)
	if c == nil {
		return append(out, 0x0a, 2, 0x18, campaignUnknown)
	}
	price, reason := c.reserve(asked)
	if reason != 0 {
		return append(out, 0x0a, 2, 0x18, reason)
	}
	item := len(out)
	out = append(out, 0x0a, 0, 0x08)
	out = binary.AppendUvarint(out, uint64(price))
	out = append(out, 0x12, tokenBytes)
	var token [tokenBytes]byte
	binary.LittleEndian.PutUint64(token[0:], id)
	binary.LittleEndian.PutUint32(token[8:], uint32(number))
	binary.LittleEndian.PutUint32(token[12:], price)
	out = append(out, token[:]...)
	out[item+1] = byte(len(out) - item - 2)
	return out
}

func (s *server) wins(out []byte, correlation uint64, wins []byte) ([]byte, error) {
	out, frame := open(out, correlation, 2)
	out = append(out, 0x0a, 0, 0)
	list := len(out)
	for len(wins) > 0 {
		item, rest, err := next(wins)
		if err != nil {
			return nil, err
		}
		wins = rest
		if item.number != 1 {
			continue
		}
		var token []byte
		var price uint64
		for message := item.bytes; len(message) > 0; {
			f, rest, err := next(message)
			if err != nil {
				return nil, err
			}
			message = rest
			switch f.number {
			case 1:
				token = f.bytes
			case 2:
				price = f.value
			}
		}
		out = append(out, s.win(token, price))
	}
	if count := len(out) - list; count == 0 || count > itemsMax {
		return nil, fmt.Errorf("%w: %d wins", errMalformed, count)
	}
	setLength(out, list)
	frame.close(out)
	return out, nil
}

func (s *server) win(token []byte, price uint64) byte {
	if len(token) != tokenBytes {
		return outcomeInvalid
	}
	c, bid := s.campaign(uint64(binary.LittleEndian.Uint32(token[8:]))), binary.LittleEndian.Uint32(token[12:])
	if c == nil {
		return outcomeInvalid
	}
	if price > uint64(bid) {
		return outcomeAboveBid
	}
	if !c.settle(bid, uint32(price)) {
		return outcomeInvalid
	}
	return outcomeTaken
}
