package hostnet

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/lnet"
)

// Link is the link of one NI. It is down while the NI's device is not operational or has lost the NI's address
// (socklnd 17, o2iblnd 16), or while the driver has another reason. A driver creates it with NewLink, runs
// Watch in a goroutine, and calls Check when something may have changed. The other methods may be called
// concurrently.
type Link struct {
	host  Host
	nid   lnet.NID
	upper lnd.Upper
	log   *boundedlog.Log
	more  func(device string) (cause string) // the driver's reason why the link is down, or ""

	index   int // the device's index; only Check uses it
	device  atomic.Pointer[string]
	cause   atomic.Pointer[string]             // why the link is down; empty if it is up
	back    func()                             // set by OnBack
	rewatch atomic.Pointer[context.CancelFunc] // makes Watch call the host's Watch again after a pause; nil before Watch
}

// NewLink returns the link of an NI on the device dev, in its present state. It does not report this state to
// upper. more may be nil. Otherwise NewLink and Check call it if the device is up and has the address; it
// returns another reason why the link is down, and how to fix it, or "" if there is no such reason.
func NewLink(h Host, dev *Device, nid lnet.NID, upper lnd.Upper, log *boundedlog.Log, more func(device string) (cause string)) *Link {
	if more == nil {
		more = func(string) string { return "" }
	}
	l := &Link{host: h, nid: nid, upper: upper, log: log, more: more, back: func() {}, index: dev.Index}
	l.device.Store(&dev.Name)
	cause := dev.downCause(nid.IP())
	if cause == "" {
		cause = l.more(dev.Name)
	}
	l.cause.Store(&cause)
	return l
}

// Device returns the name of the NI's device. It changes if the device is renamed.
func (l *Link) Device() string { return *l.device.Load() }

// State returns whether the link is up.
func (l *Link) State() lnd.LinkState { return stateFor(*l.cause.Load()) }

// Cause returns why the link is down and how to fix it. It returns "" if the link is up.
func (l *Link) Cause() string { return *l.cause.Load() }

// OnBack sets a function that Check calls when the link has come up, before it notifies the node. It must be
// called before Watch and Check.
func (l *Link) OnBack(back func()) { l.back = back }

// stateFor returns the state of a link that is down because of cause, or is up if cause is "".
func stateFor(cause string) lnd.LinkState {
	if cause == "" {
		return lnd.LinkUp
	}
	return lnd.LinkDown
}

// Watch calls check when the host has changed (Host.Watch), until ctx is done. check calls Check, or makes
// another goroutine call it. If the host cannot be watched or examined, for example because no descriptor is
// free, Watch tries again after a pause (Follow).
func (l *Link) Watch(ctx context.Context, check func()) {
	watch := func(ctx context.Context, changed func()) error {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		l.rewatch.Store(&stop)
		return l.host.Watch(ctx, changed)
	}
	Follow(ctx, watch, check, func(err error) {
		l.log.Warn("link state cannot be watched now; a dead link is only detected by timeouts", "device", l.Device(), "cause", err)
	})
}

// Check examines the device and reports a change of the link's state to the node. If the host's devices cannot
// be read, the state does not change, and Watch calls check again after a pause. Only one call of Check may run
// at a time.
func (l *Link) Check() {
	all, err := l.host.Devices()
	if err != nil {
		l.log.Warn("network devices cannot be read; the last known link state is kept", "device", l.Device(), "cause", err)
		if rewatch := l.rewatch.Load(); rewatch != nil {
			(*rewatch)()
		}
		return
	}
	cause := l.examine(all)
	before := *l.cause.Swap(&cause)
	state := stateFor(cause)
	if state == stateFor(before) {
		if cause != before {
			l.log.Report(boundedlog.Line{Level: slog.LevelInfo, Text: "link is still down", Of: boundedlog.AboutNI(l.nid)}, slog.String("cause", cause))
		}
		return
	}
	if state == lnd.LinkUp {
		l.back()
	}
	l.log.Debug("link state changed", "device", l.Device(), "state", state.String()) // the node logs the change at a higher level
	l.upper.LinkChanged(state)
}

// examine returns why the link is down, or "". It records the index and the name of the NI's device, which is
// in all.
func (l *Link) examine(all []Device) string {
	name := l.Device()
	dev := l.find(all)
	switch {
	case dev == nil:
		return fmt.Sprintf("%s was removed: restore it, or delete the NI", name)
	case dev.Moved:
		return fmt.Sprintf("%s was moved to another network namespace: move it back, or run lnetd there", name)
	}
	if cause := dev.downCause(l.nid.IP()); cause != "" {
		return cause
	}
	l.index = dev.Index
	if dev.Name != name && !isAlias(name) { // the name of an alias is the label of an address and remains
		l.device.Store(&dev.Name)
		l.log.Report(boundedlog.Line{Level: slog.LevelInfo, Text: "device was renamed", Of: boundedlog.AboutNI(l.nid)},
			slog.String("from", name), slog.String("to", dev.Name))
	}
	return l.more(dev.Name)
}

// find returns the NI's device in all, or nil if it does not exist. It looks for the device's index. (A kernel
// looks for the name, and leaves the NI down until it is configured again; decisions 98.) If the device does
// not exist or has lost the address, and another device has the same name and the address, find returns that
// one.
func (l *Link) find(all []Device) *Device {
	name, address := l.Device(), l.nid.IP()
	own := slices.IndexFunc(all, func(d Device) bool { return d.Index == l.index && (l.index != 0 || d.Name == name) })
	if own < 0 || !all[own].Has(address) {
		other := slices.IndexFunc(all, func(d Device) bool { return d.Name == name && d.Has(address) })
		if other >= 0 {
			own = other
		}
	}
	if own < 0 {
		return nil
	}
	return &all[own]
}
