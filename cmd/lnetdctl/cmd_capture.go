package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lnetd/lnetd/cmd/internal/cli"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
)

// captureOptions holds the options of the command "capture".
type captureOptions struct {
	filter api.CaptureFilter
	file   string
	force  bool
}

func (p *program) captureCommand() *cobra.Command {
	var o captureOptions
	var c *cobra.Command
	c = leaf(manual{
		use: `capture -w FILE [--nid NID,...] [--net NET,...] [--portal N,...] [--type TYPE,...]
[--payload N] [--count N] [--duration TIME] [--force]`,
		short: "record LNet messages as seen inside lnetd, for Wireshark and tshark",
		long: `Records the messages that lnetd sends, receives, forwards and drops, over all drivers, in the
format pcapng, until it is interrupted. Then it prints how many messages it has recorded,
and how many lnetd has left out because they came faster than they could be written.
lnetd does not wait for the reader. At most 8 captures run at a time: at most 2 of each user
and 7 of all users, not counting those of root and the user of lnetd. With --json an object
with "recorded", "lost" and "complete" is printed.

A message is recorded when it is passed to the driver, when all of it has arrived, when it
is dropped, and when a PUT or GET of this node has failed. A forwarded message is recorded
twice. A comment says if a message is forwarded, dropped or failed, and why.

FILE must not exist, unless --force is given, which replaces it when the capture ends. FILE
may also be a FIFO or a character device; "-" is standard output. Only the user can read a
file that is created. If the disk is full, the file has the messages before. Wireshark and
tshark decode the messages as those of TCP port 988, also if the NIDs are not IP addresses, best
with the dissector /usr/share/lnetd/wireshark/lnet.lua.

A message is recorded if it matches all of --nid, --net, --portal and --type that are
given. --nid is a NID or a pattern such as 10.0.0.[1-9]@tcp, and matches the source, the
destination, the local NI, and the neighbour. Only PUTs and GETs have a portal. The types
are put, get, ack and reply. Only headers are recorded, unless --payload is given, which
needs root or the user of lnetd.`,
		example: `lnetdctl capture -w lnet.pcapng
lnetdctl capture -w - --nid 10.0.0.7@tcp --type put,get --count 100 | tshark -r -
lnetdctl capture -w bulk.pcapng --portal 26 --payload 256 --duration 10s`,
		exits: `0    success, also if it was interrupted
1    help was requested
156  LNet is not configured (-100)
234  an option is invalid (-22)
240  too many captures are running (-16)
255  --payload is not permitted, lnetd does not answer or has ended the capture, or FILE
     cannot be written (-1)`,
	}, func(ctx context.Context) error {
		if err := refuseEmpty(c); err != nil {
			return err
		}
		return p.capture(ctx, &o)
	})
	f := c.Flags()
	f.StringVarP(&o.file, "write", "w", "", "`FILE` to create, or - for standard output; required")
	f.BoolVar(&o.force, "force", false, "replace FILE")
	f.StringVar(&o.filter.NIDs, "nid", "", "record only messages from, to or through `NID`s or patterns")
	f.StringVar(&o.filter.Nets, "net", "", "record only messages from, to or through `NET`s")
	f.StringVar(&o.filter.Portals, "portal", "", "record only PUTs and GETs to the portals `N`")
	f.StringVar(&o.filter.Types, "type", "", "record only messages of the `TYPE`s put, get, ack, reply")
	f.StringVar(&o.filter.Payload, "payload", "", "record up to `N` bytes of payload, at most 65536 (default 0)")
	f.StringVarP(&o.filter.Count, "count", "c", "", "end after `N` messages")
	f.StringVar(&o.filter.Duration, "duration", "", "end after `TIME`, such as 10s")
	_ = c.RegisterFlagCompletionFunc("type", cobra.FixedCompletions([]string{"put", "get", "ack", "reply"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// refuseEmpty returns an error if an option was given with an empty value, which would select everything.
func refuseEmpty(c *cobra.Command) (err error) {
	c.Flags().Visit(func(f *pflag.Flag) {
		if f.Value.String() == "" {
			err = fmt.Errorf("option '--%s' has no value", f.Name)
		}
	})
	return err
}

func (p *program) capture(ctx context.Context, o *captureOptions) error {
	if o.file == "" {
		return errors.New("option '--write' is needed: a file, or - for standard output")
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	client := p.client()
	defer client.Close()
	s, err := startCapture(ctx, client, o.filter)
	if err != nil {
		return p.refused(streamErrors, err)
	}
	defer func() { _ = s.Close() }()
	if out, ok := p.stdout.(*os.File); ok && o.file == "-" && isTerminal(out) {
		return errors.New("a capture is not text: write it to a file, or to a program such as tshark")
	}
	out, err := p.create(ctx, o.file, o.force)
	if err != nil {
		return p.noFile(err)
	}
	sums, err := copyCapture(out, s)
	if sums.writes != nil {
		sums.writes = errors.Join(sums.writes, out.truncate(sums.size))
	}
	sums.writes = errors.Join(sums.writes, out.keep())
	p.showCaptured(o.file, &sums)
	switch {
	case sums.writes != nil:
		return p.noFile(sums.writes)
	case err == nil, ctx.Err() != nil:
		return nil
	}
	return p.refused(streamErrors, err)
}

// showCaptured prints how many messages were recorded. In JSON it does so on standard output, unless the capture itself
// is written there.
func (p *program) showCaptured(file string, sums *captureSums) {
	if !p.json {
		fmt.Fprintln(p.stderr, sums)
		return
	}
	out := *p
	if file == "-" {
		out.stdout = p.stderr
	}
	_ = out.printJSON(sums)
}

// finishTime is the time in which lnetd must send the rest of a capture that was interrupted.
const finishTime = 2 * time.Second

// startCapture starts a capture. When ctx is done, the capture ends, and what lnetd has recorded can still be read.
func startCapture(ctx context.Context, c *client.Client, f api.CaptureFilter) (*client.Stream, error) {
	request, cancel := context.WithCancel(context.WithoutCancel(ctx))
	begun := context.AfterFunc(ctx, cancel)
	s, err := c.Capture(request, f)
	if err != nil {
		cancel()
		return nil, err
	}
	begun()
	context.AfterFunc(ctx, func() {
		if s.Finish() != nil {
			cancel()
		}
		time.AfterFunc(finishTime, cancel)
	})
	return s, nil
}

// interruptible returns a context that is also done when a signal asks the program to end, and a function that ends the
// handling of signals.
func interruptible(ctx context.Context) (context.Context, func()) {
	signaled, ignore := cli.UntilSignal(nil)
	ctx, cancel := context.WithCancelCause(ctx)
	detach := context.AfterFunc(signaled, func() { cancel(context.Cause(signaled)) })
	return ctx, func() {
		detach()
		ignore()
		cancel(nil)
	}
}
