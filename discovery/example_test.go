package discovery_test

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnet"
)

// A message waits until its peer is known. This loop does what a node does: it performs the actions of the machine, and
// reports their results to it. Here the peer is not real, and answers at once.
func Example() {
	tcp := lnet.MakeNet(lnet.TypeTCP, 0)
	m := discovery.New(discovery.Config{Local: discovery.Local{Seq: 1}, Nets: []lnet.Net{tcp}})
	here, rail1, rail2 := nid("10.0.0.1@tcp"), nid("10.0.0.2@tcp"), nid("10.0.1.2@tcp")
	now := time.Duration(0)

	m.Park(now, rail1, 1)
	for m.HasWork() {
		m.Step(now)
		for _, action := range m.Actions() {
			switch a := action.(type) {
			case discovery.SendPing:
				fmt.Println("ping", a.To)
				info := lnet.PingInfo{
					Features: lnet.FeatNIStatus | lnet.FeatRoutingDisabled | lnet.FeatMultiRail | lnet.FeatDiscovery,
					PID:      lnet.PIDLustre, Seq: 1,
					NIs: []lnet.PingNI{{NID: rail1, Status: lnet.StatusUp}, {NID: rail2, Status: lnet.StatusUp}},
				}
				reply := info.Append(nil, binary.LittleEndian)
				m.PingReply(now, a.ID, discovery.Reply{To: here, From: a.To, Content: discovery.Read(reply, false, 16)})
			case discovery.SendPush:
				fmt.Println("push to", a.To)
				m.PushAcked(now, a.ID)
			case discovery.Release:
				fmt.Println("send messages", a.Keys)
			}
		}
	}
	peer := m.Find(rail2)
	fmt.Println(peer.Primary, "has the NIDs", peer.NIDs)
	// Output:
	// ping 10.0.0.2@tcp
	// push to 10.0.0.2@tcp
	// send messages [1]
	// 10.0.0.2@tcp has the NIDs [10.0.0.2@tcp 10.0.1.2@tcp]
}

func nid(text string) lnet.NID {
	n, err := lnet.ParseNID(text)
	if err != nil {
		panic(err)
	}
	return n
}
