package node_test

import (
	"errors"
	"os"
	"syscall"
	"testing"

	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// A message to 0@lo ends on both sides if one side's memory is gone. That side gets EFAULT.
// The receiver gets EIO if the sender's memory is gone, and the sender gets no error if the
// receiver's is. The next message gets through.
func TestLoopbackOfLostMemory(t *testing.T) {
	page := os.Getpagesize()
	gone, cut := testenv.Mapped(t, 2*page)
	cut(page)
	present := make([]byte, len(gone))
	for _, tt := range []struct {
		name           string
		from, into     []byte
		sent, received error
	}{
		{"the sender's", gone, present, syscall.EFAULT, syscall.EIO},
		{"the receiver's", present, gone, nil, syscall.EFAULT},
		{"neither side's", present, present, nil, nil},
	} {
		n := newNode(t, node.Config{})
		var sender, receiver recorder
		attach(t, n, portals.Entry{Portal: 1}, portals.MD{
			Bytes: tt.into, Threshold: portals.Unlimited, Options: portals.OpPut, Handler: &receiver})
		h := bind(t, n, portals.MD{Bytes: tt.from, Threshold: portals.Unlimited, Handler: &sender})
		put(t, n, h, loID, node.PutOptions{Portal: 1})
		for side, c := range map[string]struct {
			r    *recorder
			typ  portals.EventType
			want error
		}{"sender": {&sender, portals.EventSend, tt.sent}, "receiver": {&receiver, portals.EventPut, tt.received}} {
			events := c.r.take()
			if len(events) != 1 || events[0].Type != c.typ {
				t.Errorf("%s memory is gone: the %s has %+v, want one %s", tt.name, side, events, c.typ)
				continue
			}
			err := events[0].Err
			if (err == nil) != (c.want == nil) || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("%s memory is gone: the %s has %v, want %v", tt.name, side, err, c.want)
			}
		}
	}
}
