// Package hostnettest has hosts in memory, whose devices a test sets. It starts no goroutine.
package hostnettest

import (
	"context"
	"slices"
	"sync"

	"github.com/lnetd/lnetd/lnd/hostnet"
)

// Host is a hostnet.Host. The zero value has no devices.
type Host struct {
	mu       sync.Mutex // guards the fields below
	devices  []hostnet.Device
	err      error
	watchers []*watcher
}

// watcher is a call of Watch.
type watcher struct {
	running sync.Mutex // held during a call of changed
	changed func()
}

// New returns a host with devices.
func New(devices ...hostnet.Device) *Host { return &Host{devices: devices} }

// Devices implements hostnet.Host.
func (h *Host) Devices() ([]hostnet.Device, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.devices), h.err
}

// Watch implements hostnet.Host.
func (h *Host) Watch(ctx context.Context, changed func()) error {
	w := &watcher{changed: changed}
	h.mu.Lock()
	h.watchers = append(h.watchers, w)
	h.mu.Unlock()
	w.call()
	<-ctx.Done()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watchers = slices.DeleteFunc(h.watchers, func(o *watcher) bool { return o == w })
	return nil
}

func (w *watcher) call() {
	w.running.Lock()
	defer w.running.Unlock()
	w.changed()
}

// Set replaces the devices. It returns when it has called the watchers.
func (h *Host) Set(devices ...hostnet.Device) { h.set(devices, nil) }

// Fail makes Devices return err until the next Set. It returns when it has called the watchers.
func (h *Host) Fail(err error) { h.set(nil, err) }

func (h *Host) set(devices []hostnet.Device, err error) {
	h.mu.Lock()
	h.devices, h.err = devices, err
	watchers := slices.Clone(h.watchers)
	h.mu.Unlock()
	for _, w := range watchers {
		w.call()
	}
}
