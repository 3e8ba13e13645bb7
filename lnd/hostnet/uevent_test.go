package hostnet

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
)

// Events about RDMA devices, and about the files by which processes use them, are distinguished
// from others.
func TestOfRDMA(t *testing.T) {
	event := func(words ...string) string { return strings.Join(words, "\x00") + "\x00" }
	for text, want := range map[string]bool{
		event("add@/devices/virtual/infiniband/rxe0", "ACTION=add", "DEVPATH=/devices/virtual/infiniband/rxe0",
			"SUBSYSTEM=infiniband", "NAME=rxe0", "SEQNUM=1"): true,
		event("remove@/devices/virtual/infiniband_verbs/uverbs0", "ACTION=remove", "SUBSYSTEM=infiniband_verbs",
			"DEVNAME=infiniband/uverbs0"): true,
		event("add@/devices/virtual/net/eth0", "ACTION=add", "SUBSYSTEM=net", "INTERFACE=eth0"):            false,
		event("add@/devices/virtual/infiniband_mad/umad0", "ACTION=add", "SUBSYSTEM=infiniband_mad"):       false,
		event("change@/devices/x", "ACTION=change", "SUBSYSTEM=infiniband_cm", "SUBSYSTEM=infiniband\x01"): false,
		"libudev\x00\xfe\xed\xca\xfe" + event("ACTION=add", "SUBSYSTEM=infiniband"):                        false,
		"add@/devices/virtual/infiniband/rxe0":                                                             false,
		"":                                                                                                 false,
		"add@/devices/virtual/infiniband/rxe0\x00SUBSYSTEM=infiniband":                                     true,
		strings.Repeat("\x00", 100):                                                                        false,
	} {
		if got := ofRDMA([]byte(text)); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// receiveRDMA ends with its context, and closes the file.
func TestReceiveRDMA(t *testing.T) {
	f, err := subscribeRDMA()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := receiveRDMA(ctx, f, func() {}); err != nil {
		t.Error(err)
	}
	if err := f.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("closed again: %v", err)
	}
}
