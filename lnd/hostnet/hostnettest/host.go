// Package hostnettest has hosts in memory, whose network devices a test sets. It starts no goroutine.
package hostnettest

import (
	"context"
	"slices"
	"sync"

	"github.com/lnetd/lnetd/lnd/hostnet"
)

// Host is a host in memory. It implements hostnet.Host. The zero value has no devices.
type Host struct {
	mu       sync.Mutex // guards the fields below
	devices  []hostnet.Device
	err      error // result of Devices
	watchers []*watcher
}

// watcher is a call of Watch.
type watcher struct {
	running sync.Mutex // held during a call of changed
	changed func()
}

// New returns a host with the given devices.
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

// call calls changed, one call after the other.
func (w *watcher) call() {
	w.running.Lock()
	defer w.running.Unlock()
	w.changed()
}

// Set replaces the devices. Before it returns, it has called the changed functions of all calls of Watch.
func (h *Host) Set(devices ...hostnet.Device) { h.set(devices, nil) }

// Fail makes Devices return err until the next call of Set. Before it returns, it has called the changed
// functions of all calls of Watch.
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
