package fuzz

import (
	"bytes"
	"fmt"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/testing/recording"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// decodedUnit is the decoded contents of a unit.
type decodedUnit struct {
	Name    string
	Order   string
	Request lnet.AcceptorRequest
	Hello   protocol.Hello
	Version protocol.Version
	Frame   protocol.Frame
	Header  lnet.Header
	Info    *lnet.PingInfo // of a payload that is one
	Payload []byte         // other payload
}

func read(u *recording.Unit) decodedUnit {
	s := decodedUnit{Name: u.Name(), Order: fmt.Sprint(u.Order), Request: u.Request, Hello: u.Hello,
		Version: u.Version, Frame: u.Frame, Header: u.Header, Payload: u.Payload}
	if info, err := lnet.DecodePingInfo(u.Payload, lnet.InterfacesMax); err == nil {
		s.Info, s.Payload = &info, nil
	}
	return s
}

// difference describes the fields in which the unit that we sent, got, differs from the recorded one,
// want. Besides the fields, all bytes must be equal.
func difference(want, got *recording.Unit) string {
	if bytes.Equal(want.Raw, got.Raw) {
		return ""
	}
	diff := cmp.Diff(read(want), read(got), cmp.Comparer(func(a, b lnet.NID) bool { return a == b }))
	if diff == "" {
		diff = fmt.Sprintf("the same fields, other bytes: % x, want % x", got.Raw, want.Raw)
	}
	return diff
}

// An allowance is something in which our node may differ from the recorded one. A role fails if it names
// an allowance that it does not need.
type allowance string

const (
	// The numbers of memory descriptors within a node mean nothing to other nodes, which only send
	// them back. Ours equal the kernel's as long as both do the same. But kernels' selftest creates
	// descriptors that the test does not, and a kernel changes features in its existing ping info,
	// where ours attaches another one. The cookie beside the number must be the recorded one.
	objectNumbers allowance = "numbers of descriptors"

	// The ACK of a push is sent at about the same time as messages that discovery sends because of
	// the push, or because of the peer's ACK that came with it: a push in return, and
	// messages that were waiting. In a kernel the ACK is mostly the last of the same segment, in
	// our node mostly the first. The order of ACKs among themselves, and of all other messages,
	// must be the recorded one.
	placesOfACKs allowance = "place of an ACK"

	// Kernels send long payloads without a copy, and request an acknowledgement when they may reuse
	// the memory. Our node never does (socklnd 10), so the kernel sends no such acknowledgement.
	zeroCopyRequests allowance = "requests for zero-copy acknowledgements"
)

// byChance are allowances that depend on which of two goroutines is first. They are allowed in
// every role.
var byChance = []allowance{objectNumbers, placesOfACKs}

// allow replaces our values by recorded ones where a difference is allowed, and returns the allowances
// that it used.
func allow(want, got *recording.Unit) (used []allowance) {
	if want.Kind != recording.KindMessage || got.Kind != recording.KindMessage {
		return nil
	}
	w, g := &want.Header, &got.Header
	if w.Type == g.Type && (g.Type == lnet.MsgGet || g.Type == lnet.MsgPut) && !w.Handle.IsNone() && !g.Handle.IsNone() &&
		w.Handle.Interface == g.Handle.Interface && w.Handle.Object != g.Handle.Object {
		g.Handle = w.Handle
		used = append(used, objectNumbers)
	}
	if w, g := want.Frame.Request, &got.Frame.Request; w != 0 && *g == 0 {
		*g = w
		used = append(used, zeroCopyRequests)
	}
	return used
}
