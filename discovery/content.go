package discovery

import (
	"errors"
	"fmt"

	"github.com/lnetd/lnetd/lnet"
)

// Content is the ping info of a reply or a push, read. The Machine keeps it;
// who gave it does not change it any more.
type Content struct {
	// Info is what could be read.
	Info lnet.PingInfo
	// Size is how many bytes the whole ping info needs, as far as what is there
	// tells.
	Size int
	// Short says that the room was too small for it.
	Short bool
	// Cut says that the sender's message was longer than the room. Of a push
	// that is as bad as Short (discovery 6.7); it may be metadata alone that is lacking.
	Cut bool
	// Err is why it cannot be used; nil if it can, or could with more room.
	Err error

	asked uint64 // when the ping that it answers left; 0: it is a push
	sum   uint64 // the digest
}

var errLies = errors.New("shorter than it says")

// Read reads ping info that has arrived. cut says that there was, or may have
// been, more than the room b: of a push, that the sender announced more; of a
// ping, that the reply filled the room. interfacesMax is the most entries that
// are taken (discovery 4.2). Any goroutine may call it.
func Read(b []byte, cut bool, interfacesMax int) Content {
	info, err := lnet.DecodePingInfo(b, interfacesMax)
	c := Content{Info: info, Cut: cut}
	var short *lnet.TruncatedError
	switch {
	case errors.As(err, &short):
		c.Size = short.Need
		c.Short = true
		if !cut || short.Need > lnet.MTU {
			c.Err = fmt.Errorf("ping info: %d of %d bytes: %w", len(b), short.Need, errLies)
		}
	case err != nil:
		c.Err = err
	default:
		c.Size = info.Size()
	}
	return c
}

// digest notes a number that differs, most likely, if the lists of NIDs do.
func (c *Content) digest() {
	const offset, prime = 14695981039346656037, 1099511628211 // FNV-1a
	d := uint64(offset)
	var b [lnet.LargeNIDSize]byte
	for i := range c.Info.NIs {
		for _, x := range c.Info.NIs[i].NID.AppendLarge(b[:0]) {
			d = (d ^ uint64(x)) * prime
		}
	}
	c.sum = d
}

// usable tells whether a peer can have the NID.
func usable(n lnet.NID) bool { return !n.IsZero() && !n.IsAny() && n.Net().Type() != lnet.TypeLO }
