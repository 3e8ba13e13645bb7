package protocol

import (
	"errors"
	"syscall"
	"testing"
)

// Negotiation gives a common version and the features that both sides know, or an error if the sides do not
// agree.
func TestNegotiate(t *testing.T) {
	const later = Features(1) << 63
	for _, c := range []struct {
		name             string
		lowest, highest  uint16
		wanted, required Features
		offered          Features
		granted          Features
		errno            error
	}{
		{name: "nothing but the version", lowest: 1, highest: 1, offered: FeatPolling},
		{name: "later versions too", lowest: 1, highest: 9},
		{name: "later versions only", lowest: 2, highest: 9, errno: syscall.EPROTO},
		{name: "former versions only", lowest: 0, highest: 0, errno: syscall.EPROTO},
		{name: "wanted", lowest: 1, highest: 1, wanted: FeatPolling, offered: FeatPolling, granted: FeatPolling},
		{name: "wanted, not offered", lowest: 1, highest: 1, wanted: FeatPolling},
		{name: "wanted, unknown", lowest: 1, highest: 1, wanted: FeatPolling | later, offered: FeatPolling, granted: FeatPolling},
		{name: "required", lowest: 1, highest: 1, required: FeatPolling, offered: FeatPolling, granted: FeatPolling},
		{name: "required, not offered", lowest: 1, highest: 1, required: FeatPolling, errno: syscall.EOPNOTSUPP},
		{name: "required, unknown", lowest: 1, highest: 1, required: later, offered: FeatPolling, errno: syscall.EOPNOTSUPP},
		{name: "required, reserved", lowest: 1, highest: 1, required: FeatZeroCopy, offered: Implemented, errno: syscall.EOPNOTSUPP},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := Hello{Lowest: c.lowest, Highest: c.highest, Wanted: c.wanted, Required: c.required}
			version, granted, err := h.Negotiate(c.offered)
			if !errors.Is(err, c.errno) || granted != c.granted || err == nil && version != 1 {
				t.Fatalf("version %d, %v, %v", version, granted, err)
			}
			if err != nil {
				return
			}
			if err := h.Check(&HelloReply{Version: version, Features: granted}); err != nil {
				t.Errorf("the client does not agree: %v", err)
			}
		})
	}
}

// A client refuses a version or features that it has not requested, and the lack of a required feature.
func TestUnrequestedFeatures(t *testing.T) {
	h := Hello{Lowest: 2, Highest: 3, Wanted: FeatPolling, Required: FeatZeroCopy}
	for _, c := range []struct {
		reply HelloReply
		errno syscall.Errno
	}{
		{HelloReply{Version: 2, Features: FeatZeroCopy}, 0},
		{HelloReply{Version: 3, Features: FeatZeroCopy | FeatPolling}, 0},
		{HelloReply{Version: 1, Features: FeatZeroCopy}, syscall.EPROTO},
		{HelloReply{Version: 4, Features: FeatZeroCopy}, syscall.EPROTO},
		{HelloReply{Version: 2, Features: FeatZeroCopy | FeatHugePages}, syscall.EPROTO},
		{HelloReply{Version: 2, Features: FeatPolling}, syscall.EOPNOTSUPP},
	} {
		err := h.Check(&c.reply)
		if c.errno == 0 && err != nil {
			t.Errorf("%+v: %v", c.reply, err)
		}
		if c.errno != 0 {
			named(t, err, c.errno)
		}
	}
}
