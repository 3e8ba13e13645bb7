package fuzz

import (
	"time"

	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
)

// driverVictim is a driver without a node.
type driverVictim struct {
	*stranger
	driver *socklnd.Driver
	ni     *driverNI
}

func newDriverVictim(s *stranger) strangerVictim {
	v := &driverVictim{stranger: s, driver: newVictimDriver(s, "victim", victimAddr)}
	v.open()
	return v
}

func (v *driverVictim) open() { v.ni = openDriverNI(v.T, v.driver, v.victimID.NID) }

// ask implements strangerVictim.
func (v *driverVictim) ask(to lnet.ProcessID, size int, b byte) {
	h := lnet.Header{
		Dest: to.NID, DestPID: to.PID, Type: lnet.MsgPut, Portal: openPortal, PayloadLength: uint32(size),
		Handle: lnet.Handle{Interface: 1, Object: uint64(len(v.handles))},
	}
	if b&3 > 1 {
		h.Type, h.Length, h.PayloadLength = lnet.MsgGet, uint32(size), 0
	}
	v.handles = append(v.handles, h.Handle)
	v.ni.send(to, h)
}

// restart implements strangerVictim.
func (v *driverVictim) restart(pause time.Duration) {
	v.ni.closeAndCheck(v.T)
	v.await(pause)
	v.open()
}

// setLazy implements strangerVictim.
func (v *driverVictim) setLazy(b byte) { v.ni.setLazy(b) }

// checkWorks implements strangerVictim. There is no other peer.
func (v *driverVictim) checkWorks() {}

// check implements strangerVictim. It waits no longer than until the connections have ended.
func (v *driverVictim) check() {
	v.ni.awaitQuiet()
	v.ni.check(v.T)
	checkDriver(v.stranger, v.ni.iface.Counters(), v.ni.iface.Refusals(), 1, 2*3)
}

func (v *driverVictim) close() {
	v.ni.closeAndCheck(v.T)
	if err := v.driver.Close(); err != nil {
		v.Error(err)
	}
}
