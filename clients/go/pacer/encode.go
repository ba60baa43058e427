package pacer

import "encoding/binary"

// The family of the pacer's rooms.
const roomFamily = 5

// Cases of a PacerRequest.
const (
	caseBids        = 1
	caseWins        = 2
	caseLosses      = 3
	casePutCampaign = 4
	caseEndCampaign = 5
)

// Cases of a PacerReply.
const (
	caseOutcomes      = 2
	caseCampaignPut   = 3
	caseCampaignEnded = 4
)

// A packet that is being appended to a buffer. It is shorter than 2^14 bytes, so each of its lengths takes two bytes,
// which are filled in at the end.
type packet struct {
	// Where the lengths stand: of the frame, the room, the body and the packet.
	gaps [4]int
}

func openPacket(out []byte, correlation uint64, request byte) ([]byte, packet) {
	var p packet
	p.gaps[0] = len(out)
	out = append(out, 0, 0, 0x08)
	out = appendVarint(out, correlation)
	p.gaps[1] = len(out) + 1
	p.gaps[2] = len(out) + 6
	p.gaps[3] = len(out) + 9
	return append(out, 0x7a, 0, 0, 0x08, roomFamily, 0x12, 0, 0, request<<3|2, 0, 0), p
}

func (p packet) close(out []byte) []byte {
	for _, gap := range p.gaps {
		length := len(out) - gap - 2
		out[gap], out[gap+1] = byte(length)|0x80, byte(length>>7)
	}
	return out
}

func appendBids(out []byte, correlation uint64, requests []BidRequest) []byte {
	out, p := openPacket(out, correlation, caseBids)
	for index := range requests {
		request := &requests[index]
		start := len(out)
		out = append(out, 0x0a, 0)
		out = appendFixed64(out, 0x09, request.ID)
		out = appendNumber(out, 0x10, request.Campaign)
		out = appendFixed64(out, 0x19, request.User)
		out = appendFixed64(out, 0x21, request.Key)
		out = appendNumber(out, 0x28, request.PriceMicros)
		out[start+1] = byte(len(out) - start - 2)
	}
	return p.close(out)
}

func appendWins(out []byte, correlation uint64, wins []Win) []byte {
	out, p := openPacket(out, correlation, caseWins)
	for index := range wins {
		win := &wins[index]
		start := len(out)
		out = append(out, 0x0a, 0, 0x0a, byte(len(win.Token)))
		out = append(out, win.Token[:]...)
		out = appendNumber(out, 0x10, win.PriceMicros)
		out[start+1] = byte(len(out) - start - 2)
	}
	return p.close(out)
}

func appendLosses(out []byte, correlation uint64, tokens []Token) []byte {
	out, p := openPacket(out, correlation, caseLosses)
	for index := range tokens {
		out = append(out, 0x0a, byte(len(tokens[index])))
		out = append(out, tokens[index][:]...)
	}
	return p.close(out)
}

func appendPut(out []byte, correlation uint64, id string, plan []byte) []byte {
	change := appendBytes(appendBytes(nil, 0x0a, []byte(id)), 0x12, plan)
	return appendChange(out, correlation, casePutCampaign, change)
}

func appendEnd(out []byte, correlation uint64, id string) []byte {
	return appendChange(out, correlation, caseEndCampaign, appendBytes(nil, 0x0a, []byte(id)))
}

// appendChange: changes are seldom, so each level is put together by itself.
func appendChange(out []byte, correlation uint64, request byte, change []byte) []byte {
	room := appendBytes([]byte{0x08, roomFamily}, 0x12, appendBytes(nil, request<<3|2, change))
	return appendFrame(out, correlation, bodyRoom, room)
}

func appendHello(out []byte, correlation uint64, token string) []byte {
	return appendFrame(out, correlation, 2, appendBytes(nil, 0x0a, []byte(token)))
}

func appendFrame(out []byte, correlation uint64, number byte, body []byte) []byte {
	frame := appendBytes(appendVarint([]byte{0x08}, correlation), number<<3|2, body)
	return append(appendVarint(out, uint64(len(frame))), frame...)
}

func appendVarint(out []byte, value uint64) []byte {
	for value >= 0x80 {
		out = append(out, byte(value)|0x80)
		value >>= 7
	}
	return append(out, byte(value))
}

// appendNumber does not write zero.
func appendNumber(out []byte, tag byte, value uint32) []byte {
	if value == 0 {
		return out
	}
	return appendVarint(append(out, tag), uint64(value))
}

// appendFixed64 does not write zero.
func appendFixed64(out []byte, tag byte, value uint64) []byte {
	if value == 0 {
		return out
	}
	var bytes [8]byte
	binary.LittleEndian.PutUint64(bytes[:], value)
	return append(append(out, tag), bytes[:]...)
}

func appendBytes(out []byte, tag byte, bytes []byte) []byte {
	return append(appendVarint(append(out, tag), uint64(len(bytes))), bytes...)
}
