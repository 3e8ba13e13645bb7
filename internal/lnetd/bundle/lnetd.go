package bundle

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/diagnosis"
	"github.com/lnetd/lnetd/internal/lnetd/doctor"
	"github.com/lnetd/lnetd/lnet"
)

const (
	// peersMax is the maximum number of peers in an archive.
	peersMax = 1000
	// probeTimeout is the timeout of each probe of doctor.
	probeTimeout = 3 * time.Second
	// peerDetail is the level of detail of peers that includes everything.
	peerDetail = 4
)

// fromLnetd returns the files with what lnetd says.
func (b *Bundle) fromLnetd() []source {
	c := b.Client
	return []source{
		reply("version.json", "the running lnetd", c.Version),
		{"doctor.json", "what lnetdctl doctor finds", b.findings},
		{"events.jsonl", "what has happened to the node", b.events},
		reply("configuration.json", "the configuration in force", c.Configuration),
		{"lnetd.yaml", "the configuration file", b.configFile},
		reply("nets.json", "nets and NIs with counters", func(ctx context.Context) (api.Nets, error) { return c.NetsAndWaiting(ctx, "") }),
		{"peers.json", "the oldest peers, at most 1000", b.peers},
		reply("routes.json", "routes", func(ctx context.Context) ([]api.Route, error) {
			return c.Routes(ctx, api.RouteFilter{Hops: -1, Priority: -1})
		}),
		reply("routing.json", "this node as a router", c.Routing),
		reply("stats.json", "counters, drops and refusals", c.Stats),
		reply("globals.json", "parameters", c.Globals),
		reply("recovery.json", "NIDs in recovery", c.Recovery),
		reply("udsp.json", "user policies", func(ctx context.Context) ([]api.UDSPRule, error) { return c.UDSP(ctx, "") }),
		reply("selection.json", "selection rules", func(ctx context.Context) ([]api.SelectionRule, error) { return c.Selection(ctx, "", "") }),
		reply("faults-drop.json", "fault rules that drop", func(ctx context.Context) ([]api.FaultRule, error) { return c.Faults(ctx, "drop") }),
		reply("faults-delay.json", "fault rules that delay", func(ctx context.Context) ([]api.FaultRule, error) { return c.Faults(ctx, "delay") }),
		reply("clients.json", "programs that use lnetd, and proxies", c.Clients),
		reply("selftest.json", "LNet selftest", c.LstStatus),
		reply("log-settings.json", "settings of the log", c.Log),
		reply("numa.json", "CPU partitions", c.NUMA),
	}
}

// reply returns a file with the reply to a request, as JSON.
func reply[T any](name, about string, ask func(ctx context.Context) (T, error)) source {
	return source{name, about, func(ctx context.Context) ([]byte, error) {
		v, err := ask(ctx)
		if err != nil {
			return nil, err
		}
		return encode(v)
	}}
}

func encode(v any) ([]byte, error) {
	var out bytes.Buffer
	j := json.NewEncoder(&out)
	j.SetIndent("", "  ")
	j.SetEscapeHTML(false)
	err := j.Encode(v)
	return out.Bytes(), err
}

func (b *Bundle) findings(ctx context.Context) ([]byte, error) {
	d := doctor.Doctor{Client: b.Client, Config: b.Config, Timeout: probeTimeout, AskHosts: true}
	facts, err := d.Collect(ctx, lnet.NID{})
	if err != nil {
		return nil, err
	}
	return encode(diagnosis.Examine(facts))
}

func (b *Bundle) events(ctx context.Context) ([]byte, error) {
	s, err := b.Client.Events(ctx, api.EventFilter{})
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Close() }()
	return io.ReadAll(io.LimitReader(s, fileMax+1))
}

func (b *Bundle) peers(ctx context.Context) ([]byte, error) {
	var list []api.Peer
	for p, err := range b.Client.EachPeer(ctx, "", peerDetail) {
		if err != nil {
			return nil, err
		}
		if list = append(list, p); len(list) == peersMax {
			break
		}
	}
	return encode(list)
}

func (b *Bundle) configFile(context.Context) ([]byte, error) {
	name := b.Config
	if name == "" {
		name = doctor.DefaultConfig
	}
	return readFile(name)
}

// readFile reads a file, at most somewhat more than fileMax of it. It accepts only regular files.
func readFile(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New(name + " is not a regular file")
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, fileMax+1))
}

// lines joins lines to a text.
func lines(list []string) []byte { return []byte(strings.Join(list, "\n") + "\n") }
