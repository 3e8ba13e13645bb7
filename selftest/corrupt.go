package selftest

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/lnetd/lnetd/selftest/message"
	"github.com/lnetd/lnetd/selftest/pattern"
)

// corrupt fills a bulk with the pattern and corrupts it: it adds a random number from 1 to InjectErrors to one
// word that the receiver will check.
func (a *Agent) corrupt(b []byte, c message.Check) {
	pattern.Fill(b, message.LittleEndian)
	if !c.Looks() {
		return
	}
	at := rand.IntN(len(b)/8) * 8
	if c == message.CheckSimple && at != 0 {
		at = len(b) - 8
	}
	w := b[at : at+8]
	binary.LittleEndian.PutUint64(w, binary.LittleEndian.Uint64(w)+1+rand.Uint64N(uint64(a.config.InjectErrors)))
	a.corrupted.Add(1)
}
