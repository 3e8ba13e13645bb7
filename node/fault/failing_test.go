package fault_test

import (
	"errors"
	"testing"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node/fault"
)

// fails returns how many of n messages to or from a NID fail.
func fails(r *fault.Rules, nid lnet.NID, n int) (failed int) {
	for range n {
		if r.Fails(nid) {
			failed++
		}
	}
	return failed
}

func failNID(t *testing.T, r *fault.Rules, nid lnet.NID, count int) {
	t.Helper()
	if err := r.FailNID(nid, count); err != nil {
		t.Fatal(err)
	}
}

// lnet-core 11.4
func TestFailNIDCountsDown(t *testing.T) {
	r := fault.New(1)
	failNID(t, r, nidA, 3)
	if !r.Active() {
		t.Error("not active")
	}
	if n := fails(r, nidB, 10); n != 0 {
		t.Errorf("%d messages of another NID fail", n)
	}
	if n := fails(r, nidA, 10); n != 3 {
		t.Errorf("%d messages fail, want 3", n)
	}
	if r.Active() {
		t.Error("still active after the last message")
	}
}

// lnet-core 11.4
func TestFailNIDForever(t *testing.T) {
	r := fault.New(1)
	failNID(t, r, nidA, fault.Forever)
	if n := fails(r, nidA, 1000); n != 1000 {
		t.Errorf("%d of 1000 messages fail", n)
	}
}

// lnet-core 11.4
func TestFailEveryone(t *testing.T) {
	r := fault.New(1)
	failNID(t, r, lnet.AnyNID, 4)
	if n := fails(r, nidA, 2) + fails(r, nidB, 10); n != 4 {
		t.Errorf("%d messages of two NIDs fail, want 4", n)
	}
}

// lnet-core 11.4
func TestFailNIDWithZeroRemoves(t *testing.T) {
	r := fault.New(1)
	failNID(t, r, nidA, fault.Forever)
	failNID(t, r, nidB, 5)
	failNID(t, r, nidA, 0)
	if r.Fails(nidA) {
		t.Error("the NID that was removed fails")
	}
	if !r.Fails(nidB) {
		t.Error("the other NID does not fail")
	}
	failNID(t, r, nidA, 5)
	failNID(t, r, lnet.AnyNID, 0)
	if r.Active() || r.Fails(nidA) || r.Fails(nidB) {
		t.Error("removing all left some")
	}
}

func TestFailNIDAgainReplaces(t *testing.T) {
	r := fault.New(1)
	failNID(t, r, nidA, 5)
	failNID(t, r, nidA, 2)
	if n := fails(r, nidA, 10); n != 2 {
		t.Errorf("%d messages fail, want 2", n)
	}
}

func TestOneMessageIsCountedOnce(t *testing.T) {
	r := fault.New(1)
	failNID(t, r, nidA, 2)
	failNID(t, r, lnet.AnyNID, 3)
	if n := fails(r, nidA, 10); n != 5 {
		t.Errorf("%d messages fail, want 2 of the NID's and 3 of everyone's", n)
	}
}

func TestFailNIDRefusesNonsense(t *testing.T) {
	r := fault.New(1)
	for _, err := range []error{r.FailNID(nidA, -2), r.FailNID(lnet.NID{}, 1)} {
		if !errors.Is(err, fault.ErrInvalid) {
			t.Errorf("error %v, want ErrInvalid", err)
		}
	}
	if r.Active() {
		t.Error("something was kept")
	}
}
