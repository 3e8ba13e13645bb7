package node_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

func TestStart(t *testing.T) {
	f := newFabric()
	d := &driver{fabric: f, typ: lnet.TypeTCP}
	const there = "10.0.0.1@tcp1"
	for _, c := range []struct {
		name string
		nids []string
		is   func(error) bool
	}{
		{"no NID", []string{there, "10.0.0.1.1@tcp"}, func(err error) bool { return errors.As(err, new(*lnet.FieldError)) }},
		{"not the driver's", []string{there, "10.0.0.1@o2ib"}, func(err error) bool { return errors.Is(err, node.ErrInvalid) }},
		{"twice", []string{there, there}, func(err error) bool { return errors.Is(err, node.ErrExists) }},
	} {
		n, err := node.Start(t.Context(), node.Config{}, d, c.nids...)
		if n != nil || !c.is(err) {
			t.Errorf("%s: error %v", c.name, err)
		}
		if len(f.ports) > 0 {
			t.Errorf("%s: the first NI is open", c.name)
		}
	}
	n, err := node.Start(t.Context(), node.Config{}, d, there, "10.0.0.2@tcp")
	if err != nil {
		t.Fatal(err)
	}
	var nids []string
	for _, ni := range n.NIs() {
		nids = append(nids, ni.NID.String())
	}
	if d := cmp.Diff([]string{"0@lo", there, "10.0.0.2@tcp"}, nids); d != "" {
		t.Error(d)
	}
	if err := n.Close(context.Background()); err != nil {
		t.Error(err)
	}
}
