package lnet

import (
	"testing"

	"pgregory.net/rapid"
)

// lnet-wire 2.6 (1)-(2), 3.2 (3)
func TestProcessIDText(t *testing.T) {
	nid := "192.168.1.10@tcp"
	tests := []struct {
		in   string
		pid  PID
		text string
	}{
		{"12345-192.168.1.10@tcp", PIDLustre, "12345-192.168.1.10@tcp"},
		{"192.168.1.10@tcp", PIDLustre, "12345-192.168.1.10@tcp"},
		{"192.168.1.10", PIDLustre, "12345-192.168.1.10@tcp"},
		{"0-192.168.1.10@tcp", 0, "0-192.168.1.10@tcp"},
		{"7-192.168.1.10@tcp", 7, "7-192.168.1.10@tcp"},
		{"LNET_PID_ANY-192.168.1.10@tcp", PIDAny, "LNET_PID_ANY-192.168.1.10@tcp"},
		{"4294967295-192.168.1.10@tcp", PIDAny, "LNET_PID_ANY-192.168.1.10@tcp"},
		{"U7-192.168.1.10@tcp", 7 | PIDUserFlag, "U7-192.168.1.10@tcp"},
	}
	for _, tt := range tests {
		want := ProcessID{NID: mustNID(t, nid), PID: tt.pid}
		got, err := ParseProcessID(tt.in)
		if err != nil || got != want || got.String() != tt.text {
			t.Errorf("ParseProcessID(%q) = %v, %v, want %v", tt.in, got, err, tt.text)
		}
	}
}

// lnet-wire 3.2 (3)
func TestParseProcessIDRefuses(t *testing.T) {
	for _, in := range []string{
		"", "-", "-10.0.0.1@tcp", "x-10.0.0.1@tcp", "4294967296-10.0.0.1@tcp", "12345-", "12345",
		"U-10.0.0.1@tcp", "U2147483648-10.0.0.1@tcp", "1-2-10.0.0.1@tcp", "12345 10.0.0.1@tcp", "-1-10.0.0.1@tcp",
	} {
		got, err := ParseProcessID(in)
		if err == nil || got != (ProcessID{}) {
			t.Errorf("ParseProcessID(%q) = %v, %v, want an error", in, got, err)
			continue
		}
		wantNamed(t, err)
	}
}

func TestLoopbackProcessID(t *testing.T) {
	for in, pid := range map[string]PID{"3-0@lo": 3, "0@lo": PIDLustre, "3-any-thing@lo": 3} {
		if got, err := ParseProcessID(in); err != nil || got != (ProcessID{LoopbackNID, pid}) {
			t.Errorf("ParseProcessID(%q) = %v, %v", in, got, err)
		}
	}
}

func TestProcessIDRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := ProcessID{
			NID: rapid.OneOf(genInterfaceNID(), rapid.Just(AnyNID), rapid.Just(LoopbackNID)).Draw(t, "nid"),
			PID: PID(rapid.Uint32().Draw(t, "pid")),
		}
		text, err := want.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var got ProcessID
		if err := got.UnmarshalText(text); err != nil || got != want {
			t.Fatalf("%q gives %v, %v", text, got, err)
		}
	})
}

func TestCutPID(t *testing.T) {
	for in, want := range map[string]struct {
		pid  PID
		nids string
	}{
		"12345-10.0.0.[1-4]@tcp":        {PIDLustre, "10.0.0.[1-4]@tcp"},
		"10.0.0.[1-4]@tcp,10.0.0.9@tcp": {PIDLustre, "10.0.0.[1-4]@tcp,10.0.0.9@tcp"},
		"2147483653-0.0.64.[0-3]@mpi":   {PIDUserFlag | 5, "0.0.64.[0-3]@mpi"},
		"U5-0.0.64.1@mpi":               {PIDUserFlag | 5, "0.0.64.1@mpi"},
		"":                              {PIDLustre, ""},
	} {
		if pid, nids, err := CutPID(in); err != nil || pid != want.pid || nids != want.nids {
			t.Errorf("CutPID(%q) = %s, %q, %v", in, pid, nids, err)
		}
	}
	if _, _, err := CutPID("x-10.0.0.1@tcp"); err == nil {
		t.Error("the PID x is accepted")
	}
}

// PIDs of applications have bit 31, and not the three below it (mpilnd B.4).
func TestIsApplication(t *testing.T) {
	for pid, want := range map[PID]bool{
		PIDUserFlag | 5: true, PIDUserFlag | 1<<28 - 1: true, PIDUserFlag: true,
		PIDLustre: false, PIDLustre | PIDUserFlag: true, 5: false, 0: false, PIDAny: false, PIDUserFlag | 1<<28: false,
	} {
		if got := pid.IsApplication(); got != want {
			t.Errorf("%s: %t", pid, got)
		}
	}
}
