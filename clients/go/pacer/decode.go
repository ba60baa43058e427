package pacer

import (
	"encoding/binary"
	"math"
	"time"
)

// A field of a message: its number and wire type, and its content as a number or as bytes.
type field struct {
	number uint64
	kind   uint64
	value  uint64
	bytes  []byte
}

// Wire types of protobuf.
const (
	kindVarint = 0
	kindEight  = 1
	kindBytes  = 2
	kindFour   = 5
)

// next cuts a field off a message that is not empty.
func next(message []byte) (field, []byte, error) {
	tag, width := binary.Uvarint(message)
	if width <= 0 || tag > math.MaxUint32 || tag>>3 == 0 {
		return field{}, nil, errMalformed
	}
	message = message[width:]
	found := field{number: tag >> 3, kind: tag & 7}
	var length uint64
	switch found.kind {
	case kindVarint:
		if found.value, width = binary.Uvarint(message); width <= 0 {
			return field{}, nil, errMalformed
		}
		return found, message[width:], nil
	case kindEight:
		length = 8
	case kindFour:
		length = 4
	case kindBytes:
		if length, width = binary.Uvarint(message); width <= 0 {
			return field{}, nil, errMalformed
		}
		message = message[width:]
	default:
		return field{}, nil, errMalformed
	}
	if length > uint64(len(message)) {
		return field{}, nil, errMalformed
	}
	found.bytes = message[:length]
	return found, message[length:], nil
}

func (f *field) number32() (uint32, error) {
	if f.kind != kindVarint || f.value > math.MaxUint32 {
		return 0, errMalformed
	}
	return uint32(f.value), nil
}

// A reply, not yet read but for its envelope.
type reply struct {
	correlation uint64
	// Number of the body, and its bytes.
	number uint64
	body   []byte
}

// Bodies of a ReplyFrame that are read here.
const (
	bodyWelcome = 2
	bodyError   = 10
	bodyRoom    = 15
)

// readFrame reads the envelope of a frame, which has one body.
func readFrame(frame []byte) (reply, error) {
	var found reply
	for len(frame) > 0 {
		part, rest, err := next(frame)
		switch {
		case err != nil:
			return reply{}, err
		case part.number == 1 && part.kind == kindVarint:
			found.correlation = part.value
		case part.number == 1:
			return reply{}, errMalformed
		case part.number <= bodyRoom || (part.number >= 200 && part.number <= 205):
			if found.number != 0 || part.kind != kindBytes {
				return reply{}, errMalformed
			}
			found.number, found.body = part.number, part.bytes
		}
		frame = rest
	}
	if found.number == 0 {
		return reply{}, errMalformed
	}
	return found, nil
}

// readRoom finds what the pacer says in a room's frame: the case of a PacerReply, and its bytes.
func readRoom(room []byte) (kind uint64, content []byte, err error) {
	var family uint64
	var body []byte
	for len(room) > 0 {
		part, rest, err := next(room)
		if err != nil {
			return 0, nil, err
		}
		switch {
		case part.number == 1 && part.kind == kindVarint:
			family = part.value
		case part.number == 2 && part.kind == kindBytes:
			body = part.bytes
		case part.number <= 2:
			return 0, nil, errMalformed
		}
		room = rest
	}
	if family != roomFamily {
		return 0, nil, errMalformed
	}
	for len(body) > 0 {
		part, rest, err := next(body)
		if err != nil {
			return 0, nil, err
		}
		if part.number <= caseCampaignEnded {
			if kind != 0 || part.kind != kindBytes {
				return 0, nil, errMalformed
			}
			kind, content = part.number, part.bytes
		}
		body = rest
	}
	if kind == 0 {
		return 0, nil, errMalformed
	}
	return kind, content, nil
}

// readBids appends the bids of a packet, which must be so many.
func readBids(packet []byte, bids []Bid, wanted int) ([]Bid, error) {
	before := len(bids)
	for len(packet) > 0 {
		part, rest, err := next(packet)
		if err != nil {
			return bids, err
		}
		packet = rest
		if part.number != 1 {
			continue
		}
		if part.kind != kindBytes || len(bids)-before == wanted {
			return bids, errMalformed
		}
		bids = append(bids, Bid{})
		if err := readBid(part.bytes, &bids[len(bids)-1]); err != nil {
			return bids, err
		}
	}
	if len(bids)-before != wanted {
		return bids, errMalformed
	}
	return bids, nil
}

func readBid(message []byte, bid *Bid) error {
	for len(message) > 0 {
		part, rest, err := next(message)
		if err != nil {
			return err
		}
		switch part.number {
		case 1:
			if bid.PriceMicros, err = part.number32(); err != nil {
				return err
			}
		case 2:
			if part.kind != kindBytes || (len(part.bytes) != 0 && len(part.bytes) != len(bid.Token)) {
				return errMalformed
			}
			bid.IsBid = len(part.bytes) != 0
			copy(bid.Token[:], part.bytes)
		case 3:
			if part.kind != kindVarint {
				return errMalformed
			}
			bid.NoBid = NoBidUnspecified
			if part.value <= uint64(PriceAboveCap) {
				bid.NoBid = NoBidReason(part.value)
			}
		}
		message = rest
	}
	if bid.IsBid {
		bid.NoBid = NoBidUnspecified
	}
	return nil
}

// readOutcomes appends the outcomes of a packet, which must be so many.
func readOutcomes(packet []byte, outcomes []Outcome, wanted int) ([]Outcome, error) {
	before := len(outcomes)
	push := func(number uint64) error {
		if len(outcomes)-before == wanted {
			return errMalformed
		}
		if number > uint64(Won) {
			number = uint64(OutcomeUnspecified)
		}
		outcomes = append(outcomes, Outcome(number))
		return nil
	}
	for len(packet) > 0 {
		part, rest, err := next(packet)
		if err != nil {
			return outcomes, err
		}
		packet = rest
		switch {
		case part.number != 1:
		case part.kind == kindVarint:
			err = push(part.value)
		case part.kind == kindBytes:
			for list := part.bytes; len(list) > 0 && err == nil; {
				number, width := binary.Uvarint(list)
				if width <= 0 {
					return outcomes, errMalformed
				}
				list, err = list[width:], push(number)
			}
		default:
			err = errMalformed
		}
		if err != nil {
			return outcomes, err
		}
	}
	if len(outcomes)-before != wanted {
		return outcomes, errMalformed
	}
	return outcomes, nil
}

func readPut(message []byte) (put CampaignPut, err error) {
	for len(message) > 0 {
		part, rest, err := next(message)
		if err != nil {
			return put, err
		}
		switch {
		case part.number == 1:
			if put.Number, err = part.number32(); err != nil {
				return put, err
			}
		case part.number <= 3 && part.kind != kindVarint:
			return put, errMalformed
		case part.number == 2:
			put.Version = part.value
		case part.number == 3:
			put.IsNew = part.value != 0
		}
		message = rest
	}
	return put, nil
}

func readError(message []byte) (*Error, error) {
	said := &Error{}
	for len(message) > 0 {
		part, rest, err := next(message)
		if err != nil {
			return nil, err
		}
		switch {
		case part.number <= 2 && part.kind != kindBytes:
			return nil, errMalformed
		case part.number == 1:
			said.Code = string(part.bytes)
		case part.number == 2:
			said.Detail = string(part.bytes)
		case part.number == 3:
			milliseconds, err := part.number32()
			if err != nil {
				return nil, err
			}
			said.RetryAfter = time.Duration(milliseconds) * time.Millisecond
		}
		message = rest
	}
	return said, nil
}

// What the server tells of its bounds.
type welcome struct {
	frameBytesMax, inFlightMax uint32
}

func readWelcome(message []byte) (told welcome, err error) {
	for len(message) > 0 {
		part, rest, err := next(message)
		if err != nil {
			return told, err
		}
		switch part.number {
		case 1:
			told.frameBytesMax, err = part.number32()
		case 3:
			told.inFlightMax, err = part.number32()
		}
		if err != nil {
			return told, err
		}
		message = rest
	}
	return told, nil
}
