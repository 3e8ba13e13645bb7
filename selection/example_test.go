package selection_test

import (
	"fmt"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selection"
)

// A node has two NIs on the net of a peer. Messages alternate between them, until the health of one is reduced.
func Example() {
	a, b, p := &selection.NI{}, &selection.NI{}, &selection.PeerNI{}
	a.Init(nid("10.0.0.1@tcp"), selection.UnknownCPT, nil)
	b.Init(nid("10.0.0.2@tcp"), selection.UnknownCPT, nil)
	p.Init(nid("10.0.0.11@tcp"), nil)
	view := &selection.View{Local: selection.NewLocal(nil, []*selection.NI{a, b})}
	selection.NewPeer(nil, selection.Identity{Primary: p.NID, MultiRail: true}, []*selection.PeerNI{p}).Publish()

	request := &selection.Request{Dest: p, CPT: selection.UnknownCPT}
	for range 3 {
		path, err := view.Choose(request)
		if err != nil {
			fmt.Println(err)
			return
		}
		path.Commit()
		fmt.Println(path.NI.NID, "to", path.Next.NID)
	}

	b.Health.Store(900)
	fmt.Print(view.Explain(request))
	// Output:
	// 10.0.0.1@tcp to 10.0.0.11@tcp
	// 10.0.0.2@tcp to 10.0.0.11@tcp
	// 10.0.0.1@tcp to 10.0.0.11@tcp
	// any NID of a multi-rail peer
	// net
	//   1. tcp
	// NI
	//   1. 10.0.0.1@tcp
	//   2. 10.0.0.2@tcp             NI health 900, 10.0.0.1@tcp has 1000
	// peer NI
	//   1. 10.0.0.11@tcp
	// path: 10.0.0.1@tcp to 10.0.0.11@tcp
}

func nid(text string) lnet.NID {
	n, err := lnet.ParseNID(text)
	if err != nil {
		panic(err)
	}
	return n
}
