package discovery

import (
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnet"
)

// A peer sends pushes with large lists without pause. The rounds of other peers must
// continue. The node handles what has arrived, makes 16 steps, and repeats.
func TestPushesStarveOthers(t *testing.T) {
	m := New(Config{Local: Local{Mode: On, Seq: 1}, Nets: []lnet.Net{lnet.MakeNet(lnet.TypeTCP, 0)}})
	nid := func(k int) lnet.NID { return lnet.NIDFromNumber(lnet.MakeNet(lnet.TypeTCP, 0), uint32(0x0a000000+k)) }
	hostile := nid(1)
	list := func(seq uint32, base int) Content {
		c := Content{Info: lnet.PingInfo{Features: lnet.FeatNIStatus | lnet.FeatMultiRail | lnet.FeatDiscovery, Seq: seq}}
		c.Info.NIs = append(c.Info.NIs, lnet.PingNI{NID: hostile, Status: lnet.StatusUp})
		for k := range 4094 {
			c.Info.NIs = append(c.Info.NIs, lnet.PingNI{NID: nid(base + k), Status: lnet.StatusUp})
		}
		c.Size = c.Info.Size()
		return c
	}
	m.FindOrCreate(0, hostile)
	m.Park(0, nid(2), 77) // another peer that must be pinged
	honest := 0
	rounds := testenv.Fewer(400)
	for k := range rounds {
		m.PushReceived(time.Duration(k)*time.Millisecond, hostile, list(uint32(k+1), 0x10000*(1+k%2)))
		for range 16 {
			m.Step(time.Duration(k) * time.Millisecond)
			for _, a := range m.Actions() {
				if p, ok := a.(SendPing); ok && p.To == nid(2) {
					honest++
				}
			}
		}
	}
	if honest == 0 {
		t.Errorf("%d large pushes, %d steps: the other peer was not pinged", rounds, 16*rounds)
	}
}

// The same holds if the lists do not change.
func TestSamePushesStarveOthers(t *testing.T) {
	m := New(Config{Local: Local{Mode: On, Seq: 1}, Nets: []lnet.Net{lnet.MakeNet(lnet.TypeTCP, 0)}})
	nid := func(k int) lnet.NID { return lnet.NIDFromNumber(lnet.MakeNet(lnet.TypeTCP, 0), uint32(0x0a000000+k)) }
	hostile := nid(1)
	c := Content{Info: lnet.PingInfo{Features: lnet.FeatNIStatus | lnet.FeatMultiRail | lnet.FeatDiscovery, Seq: 1}}
	c.Info.NIs = append(c.Info.NIs, lnet.PingNI{NID: hostile, Status: lnet.StatusUp})
	for k := range 4094 {
		c.Info.NIs = append(c.Info.NIs, lnet.PingNI{NID: nid(0x10000 + k), Status: lnet.StatusUp})
	}
	c.Size = c.Info.Size()
	m.FindOrCreate(0, hostile)
	m.Park(0, nid(2), 77)
	honest := 0
	rounds := testenv.Fewer(400)
	for k := range rounds {
		m.PushReceived(time.Duration(k)*time.Millisecond, hostile, c)
		for range 16 {
			m.Step(time.Duration(k) * time.Millisecond)
			for _, a := range m.Actions() {
				if p, ok := a.(SendPing); ok && p.To == nid(2) {
					honest++
				}
			}
		}
	}
	if honest == 0 {
		t.Errorf("%d large pushes: the other peer was not pinged", rounds)
	}
}
