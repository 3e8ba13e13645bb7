package fuzz

import (
	"github.com/lnetd/lnetd/lnd"
	driver "github.com/lnetd/lnetd/lnd/o2iblnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs/fabric"
	"github.com/lnetd/lnetd/lnet"
)

// rdmaDriver is a driver without a node.
type rdmaDriver struct {
	*rdmaAttack
	driver *driver.Driver
	proc   *fabric.Process
	ni     *driverNI
	asked  uint64
}

func newRDMADriver(s *rdmaAttack) rdmaVictim {
	v := &rdmaDriver{rdmaAttack: s}
	v.driver, v.proc = s.newDriver(rdmaVictimAddr)
	v.ni = openDriverNI(s.T, v.driver, o2ibNID(rdmaVictimAddr))
	return v
}

// ask implements rdmaVictim.
func (v *rdmaDriver) ask(t lnet.MsgType, n int) {
	to := lnet.ProcessID{NID: o2ibNID(rdmaStranger), PID: lnet.PIDLustre}
	h := lnet.Header{Dest: to.NID, DestPID: to.PID, Type: t, Portal: openPortal, Handle: lnet.Handle{Interface: 1, Object: v.asked}}
	if t == lnet.MsgGet {
		h.Length = uint32(n)
	} else {
		h.PayloadLength = uint32(n)
	}
	v.asked++
	v.ni.send(to, h)
}

// checkWorks implements rdmaVictim. There is no other peer.
func (v *rdmaDriver) checkWorks() {}

func (v *rdmaDriver) counters() []lnd.Counter { return v.ni.iface.Counters() }

// check implements rdmaVictim. It waits no longer than until the connections have ended.
func (v *rdmaDriver) check() {
	v.ni.awaitQuiet()
	v.ni.check(v.T)
	if n := v.counter("connections"); n > 2 { // both ends of one with itself
		v.Errorf("%d connections are left", n)
	}
}

func (v *rdmaDriver) close() {
	v.ni.closeAndCheck(v.T)
	if err := v.driver.Close(); err != nil {
		v.Error(err)
	}
	if err := v.proc.Close(); err != nil {
		v.Error(err)
	}
}
