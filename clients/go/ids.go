package tidegate

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"sync"
	"time"
)

const alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

// The last id that was made: 48 bits of time and 80 of chance.
var last struct {
	sync.Mutex
	timeMS uint64
	high   uint16
	low    uint64
}

// NewID makes an id with the time in it: a ULID (https://github.com/ulid/spec) of 26 characters, larger than the one
// before of this process. The ledger looks for an id only at its time, so it stays fast after a billion of them; ids of
// pure chance must be looked for everywhere.
func NewID() string {
	var chance [10]byte
	if _, err := rand.Read(chance[:]); err != nil {
		panic(fmt.Sprintf("the system gives no chance: %v", err))
	}
	last.Lock()
	defer last.Unlock()
	if now := uint64(time.Now().UnixMilli()); now > last.timeMS {
		last.timeMS = now
		last.high = binary.BigEndian.Uint16(chance[:2])
		last.low = binary.BigEndian.Uint64(chance[2:])
	} else if last.low++; last.low == 0 {
		// In the same millisecond, or when the clock went back, it counts on.
		if last.high++; last.high == 0 {
			last.timeMS++
		}
	}
	return encodeID(last.timeMS<<16|uint64(last.high), last.low)
}

// encodeID writes 128 bits as 26 digits of base 32.
func encodeID(high, low uint64) string {
	var text [26]byte
	for place := len(text) - 1; place >= 0; place-- {
		text[place] = alphabet[low&31]
		low = low>>5 | high<<59
		high >>= 5
	}
	return string(text[:])
}
