package discovery

import (
	"errors"
	"fmt"

	"github.com/lnetd/lnetd/lnet"
)

// Content is the decoded ping info of a reply or a push. The Machine keeps it, so the
// caller must not modify it after passing it.
type Content struct {
	// Info is the part of the ping info that could be decoded.
	Info lnet.PingInfo
	// Size is the size of the whole ping info in bytes. It is a minimum if the received part
	// does not show the size.
	Size int
	// Short reports that the buffer was too small, so that Info is incomplete.
	Short bool
	// Cut reports that the message was longer than the buffer. For a push the content is then
	// as unusable as if Short were set (discovery 6.7), although perhaps only metadata is
	// missing.
	Cut bool
	// Err is the reason why the content is invalid. It is nil if the content is valid, or is
	// only incomplete because the buffer was too small.
	Err error

	pingTime uint64 // Machine.clock when the ping that it answers was sent; 0 for a push
	hash     uint64 // hash of the NIDs; see digest
}

var errWrongSize = errors.New("shorter than its header says")

// Read decodes ping info that has arrived in b. cut means that the message was, or may
// have been, longer than b: the sender of a push announced more bytes, or the reply to a
// ping filled its buffer. interfacesMax is the maximum number of entries (discovery 4.2).
// Read may be called from any goroutine.
func Read(b []byte, cut bool, interfacesMax int) Content {
	info, err := lnet.DecodePingInfo(b, interfacesMax)
	c := Content{Info: info, Cut: cut}
	var short *lnet.TruncatedError
	switch {
	case errors.As(err, &short):
		c.Size = short.Need
		c.Short = true
		if !cut || short.Need > lnet.MTU {
			c.Err = fmt.Errorf("ping info: %d of %d bytes: %w", len(b), short.Need, errWrongSize)
		}
	case err != nil:
		c.Err = err
	default:
		c.Size = info.Size()
	}
	return c
}

// digest sets c.hash to a hash of the list of NIDs.
func (c *Content) digest() {
	const offset, prime = 14695981039346656037, 1099511628211 // FNV-1a
	d := uint64(offset)
	var b [lnet.LargeNIDSize]byte
	for i := range c.Info.NIs {
		for _, x := range c.Info.NIs[i].NID.AppendLarge(b[:0]) {
			d = (d ^ uint64(x)) * prime
		}
	}
	c.hash = d
}

// usable reports whether the NID can belong to a peer.
func usable(n lnet.NID) bool { return !n.IsZero() && !n.IsAny() && n.Net().Type() != lnet.TypeLO }
