package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/lnetd/lnetd/internal/load/tmhost"
)

// hostOptions holds the options of commands that start a node, or use the node of a running lnetd.
type hostOptions struct {
	transport string
	through   string
	port      int
	flags     *pflag.FlagSet
}

func (o *hostOptions) add(f *pflag.FlagSet) {
	o.flags = f
	f.StringVar(&o.transport, "transport", "lnet", "transport `lnet|mem`: an LNet node in this process, or memory, which reaches only this process")
	f.StringVar(&o.through, "through", "", "use the lnetd with the socket `PATH`, such as /run/lnetd/lnetd.sock, instead of a node in this process")
	f.IntVar(&o.port, "port", tmhost.DefaultPort, "`PORT` of all nodes, over TCP or RDMA; kernel nodes use 988, over RDMA 987")
}

// check validates the options.
func (o *hostOptions) check() error {
	if o.transport != "lnet" && o.transport != "mem" {
		return usage("--transport %q is neither lnet nor mem", o.transport)
	}
	if o.port < 1 || o.port > 65535 {
		return usage("--port %d is not a valid port", o.port)
	}
	for _, own := range []string{"transport", "port"} {
		if o.lnetd() && o.flags.Changed(own) {
			return usage("--through uses the node of lnetd: it cannot be combined with --%s", own)
		}
	}
	return nil
}

// lnetd reports whether the command uses the node of a running lnetd.
func (o *hostOptions) lnetd() bool { return o.flags.Changed("through") }

// config returns the configuration of a host with the given NID. The argument near is the NID of the other side
// of the test; it may be empty.
func (p *program) config(o *hostOptions, nid, near string) tmhost.Config {
	c := tmhost.Config{Type: o.transport, NID: nid, Near: near, Port: o.port, Logger: p.logger()}
	if o.lnetd() {
		c.Type, c.Through = "lnetd", o.through
	}
	return c
}

// checkAddresses returns an error for the first of the addresses that is invalid, or nil if all are valid.
func checkAddresses(addresses ...string) error {
	for _, s := range addresses {
		if err := tmhost.CheckAddress(s); err != nil {
			return usage("%w", err)
		}
	}
	return nil
}

// nidOf returns the NID in the address of a transfer machine, which is the text up to the first colon after the
// "@". It returns "" if the address has no NID.
func nidOf(address string) string {
	at := strings.IndexByte(address, '@')
	if at < 0 {
		return ""
	}
	colon := strings.IndexByte(address[at:], ':')
	if colon < 0 {
		return ""
	}
	return address[:at+colon]
}

// listLimits prints the limits of transfer machines on a host (transport 10.3).
func (p *program) listLimits(ctx context.Context, c tmhost.Config) (err error) {
	h, err := tmhost.Open(ctx, c)
	if err != nil {
		return err
	}
	defer finish(&err, h.Close)
	nids, err := h.Domain.NIDs(ctx)
	if err != nil {
		return err
	}
	l := h.Domain.Limits()
	if p.json {
		doc := map[string]any{"buffer_size": l.BufferSize, "segments": l.Segments, "segment_size": l.SegmentSize, "nids": nids}
		return p.printJSON(doc)
	}
	fmt.Fprintf(p.stdout, "maximum buffer size:        %d\nmaximum number of segments: %d\nmaximum segment size:       %d\n",
		l.BufferSize, l.Segments, l.SegmentSize)
	for _, n := range nids {
		fmt.Fprintf(p.stdout, "NID: %s\n", n)
	}
	return nil
}
