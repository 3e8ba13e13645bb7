package job_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/mpilnd"
	"github.com/lnetd/lnetd/lnd/mpilnd/boundary"
	"github.com/lnetd/lnetd/lnd/mpilnd/boundary/fake"
	"github.com/lnetd/lnetd/lnd/mpilnd/job"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// connected is an application and its proxies, which are a job of their own.
type connected struct {
	clients, proxies *fake.Job
	jobs             []*job.Job // clients first
	errs             []error
}

// connect starts an application of three ranks and a job of two proxies. change may change the configuration of a member.
func connect(t *testing.T, o fake.Options, change func(member int, c *job.Config)) *connected {
	t.Helper()
	const clients, proxies = 3, 2
	f := &connected{jobs: make([]*job.Job, clients+proxies), errs: make([]error, clients+proxies)}
	f.clients = fake.New(clients, o)
	f.proxies = f.clients.Beside(proxies, o)
	port := make(chan string, 1)
	var all sync.WaitGroup
	for member := range f.jobs {
		c := job.Config{Net: mpiNet, Name: fmt.Sprint("host", member), Driver: mpilnd.DefaultConfig()}
		if rank := member - clients; rank >= 0 {
			c.Open = func() (boundary.MPI, error) { return f.proxies.Rank(rank), nil }
			c.Proxy = serve(uint32(0x0a000001+rank), []lnet.PID{0x80000001}, nil)
			c.Listen = func(name string) error { port <- name; return nil }
		} else {
			c.Open = func() (boundary.MPI, error) { return f.clients.Rank(member), nil }
			c.Connect = func(ctx context.Context) (string, error) {
				select {
				case name := <-port:
					return name, nil
				case <-ctx.Done():
					return "", context.Cause(ctx)
				}
			}
		}
		if change != nil {
			change(member, &c)
		}
		all.Go(func() { f.jobs[member], f.errs[member] = job.Start(t.Context(), c) })
	}
	all.Wait()
	return f
}

func (f *connected) close() {
	f.clients.Close()
	f.proxies.Close()
}

// The processes of an application and of its proxies in another job know all of both, and ping each other. They end
// together.
//
// MPI-6, MPI-14, MPI-17
func TestConnected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := connect(t, fake.Options{Eager: 4096, Unexpected: 64, Delay: 50 * time.Microsecond, Shuffle: true}, nil)
		if err := errors.Join(f.errs...); err != nil {
			t.Fatal(err)
		}
		members := f.jobs[0].Table().Members()
		var nodes []*node.Node
		for member, j := range f.jobs {
			if d := cmp.Diff(members, j.Table().Members(), cmp.Comparer(func(a, b lnet.NID) bool { return a == b })); d != "" {
				t.Errorf("member %d: %s", member, d)
			}
			if j.Self() != members[member] || j.Self().Proxy != (member > 2) || j.PID() != 0x80000001 || j.Self().Rank != member {
				t.Errorf("member %d is %+v, PID %s", member, j.Self(), j.PID())
			}
			for comm := range 3 {
				if id, ok := j.Table().Process(mpilnd.Place{Comm: comm, Rank: 3}); ok {
					t.Errorf("member %d: rank 3 of communicator %d is %v", member, comm, id)
				}
			}
			nodes = append(nodes, open(t, j))
		}
		for member, n := range nodes {
			for _, m := range members {
				if m.Rank == member {
					continue
				}
				if _, err := n.Ping(t.Context(), lnet.ProcessID{NID: m.NID, PID: m.PID}, node.PingOptions{}); err != nil {
					t.Errorf("%s pings %s: %v", n.NID(), m.NID, err)
				}
			}
		}
		time.Sleep(10 * time.Minute) // signs of life keep the connection up
		var all sync.WaitGroup
		for member, j := range f.jobs {
			all.Go(func() {
				if err := errors.Join(j.Finish(t.Context()), nodes[member].Close(t.Context()), j.Close(t.Context())); err != nil {
					t.Errorf("member %d: %v", member, err)
				}
			})
		}
		all.Wait()
	})
}

// An application starts its proxies, and all processes know one another. All processes of the application get an error
// if the library cannot start proxies, and so do proxies that no application has started.
//
// MPI-17
func TestSpawned(t *testing.T) {
	for _, able := range []bool{true, false} {
		t.Run(fmt.Sprint(able), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const clients, proxies = 3, 2
				var all sync.WaitGroup
				jobs, errs := make([]*job.Job, clients+proxies), make([]error, clients+proxies)
				begin := func(f *fake.Job, first int, change func(rank int, c *job.Config)) {
					for rank := range f.Size() {
						c := job.Config{
							Open: func() (boundary.MPI, error) { return f.Rank(rank), nil },
							Net:  mpiNet, Name: fmt.Sprint("host", first+rank), Driver: mpilnd.DefaultConfig(),
						}
						change(rank, &c)
						all.Go(func() { jobs[first+rank], errs[first+rank] = job.Start(t.Context(), c) })
					}
				}
				asProxy := func(rank int, c *job.Config) {
					c.Spawned, c.Proxy = true, serve(uint32(0x0a000001+rank), []lnet.PID{0x80000001}, nil)
				}
				var o fake.Options
				if able {
					o.Spawn = func(p boundary.Program, f *fake.Job) {
						if d := cmp.Diff(boundary.Program{Path: "proxy", Args: []string{"--spawned"}, Hosts: []string{"a", "b"}}, p); d != "" {
							t.Error(d)
						}
						begin(f, clients, asProxy)
					}
				} else {
					begin(fake.New(proxies, o), clients, asProxy)
				}
				begin(fake.New(clients, o), 0, func(_ int, c *job.Config) {
					var err error
					if c.Spawn, err = job.ParseSpawn("a,b proxy"); err != nil {
						t.Error(err)
					}
				})
				all.Wait()
				if !able {
					for k, err := range errs {
						if k < clients && !errors.Is(err, boundary.ErrNoConnections) || k >= clients && !errors.Is(err, boundary.ErrNoParent) {
							t.Errorf("member %d: %v", k, err)
						}
						if k < clients && !strings.Contains(err.Error(), "start the proxies proxy on a,b (mpirun must know") {
							t.Errorf("member %d: %v", k, err)
						}
					}
					return
				}
				if err := errors.Join(errs...); err != nil {
					t.Fatal(err)
				}
				for member, j := range jobs {
					if m := j.Table().Members(); len(m) != len(jobs) || j.Self() != m[member] || j.Self().Proxy != (member >= clients) || j.PID() != 0x80000001 {
						t.Errorf("member %d is %+v of %+v", member, j.Self(), m)
					}
				}
				end(t, jobs)
			})
		})
	}
}

// The hosts and the program of proxies are words.
func TestParseSpawn(t *testing.T) {
	for text, want := range map[string]*boundary.Program{
		"a":                      {Path: "lnet-mpi-proxy", Args: []string{"--spawned"}, Hosts: []string{"a"}},
		" a,b  /x --net mpi1 \n": {Path: "/x", Args: []string{"--net", "mpi1", "--spawned"}, Hosts: []string{"a", "b"}},
		"":                       nil,
		"a, x":                   nil,
	} {
		p, err := job.ParseSpawn(text)
		if d := cmp.Diff(want, p); d != "" || (err == nil) != (want != nil) {
			t.Errorf("%q: %v\n%s", text, err, d)
		}
	}
}

// Two jobs that do not fit together, or whose proxies have no PID, get an error in all processes. So does a job whose
// other one does not come.
func TestNotConnected(t *testing.T) {
	for name, c := range map[string]struct {
		change func(member int, c *job.Config)
		want   string
	}{
		"net":       {func(m int, c *job.Config) { c.Net = lnet.MakeNet(mpilnd.DefaultType, uint16(m/4)) }, "the NID"},
		"rank bits": {func(m int, c *job.Config) { c.RankBits = 10 + m/3 }, "rank bits"},
		"no PID": {func(_ int, c *job.Config) {
			if c.Proxy != nil {
				c.Proxy = serve(0x0a000001, nil, nil)
				n := uint32(0x0a000000 + len(c.Name) + int(c.Name[len(c.Name)-1]))
				c.Proxy.NID = func() (lnet.NID, error) { return address(n), nil }
			}
		}, "PID"},
		"two applications": {func(_ int, c *job.Config) {
			if c.Proxy != nil {
				c.Proxy, c.Listen = nil, nil
			}
		}, ""},
		"one rank alone": {func(m int, c *job.Config) {
			if m == 1 {
				c.Connect = nil
			}
		}, ""},
		"port": {func(_ int, c *job.Config) {
			if c.Connect != nil {
				c.Connect = job.Port("no port")
			}
		}, ""},
		"no connections": {func(_ int, c *job.Config) {
			open := c.Open
			c.Open = func() (boundary.MPI, error) {
				m, err := open()
				return without{m}, err
			}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := connect(t, fake.Options{}, c.change)
				failed := 0
				for _, err := range f.errs {
					if err != nil && (strings.Contains(err.Error(), c.want) || errors.Is(err, lnd.ErrTimeout)) {
						failed++
					}
				}
				if name != "two applications" && failed != len(f.errs) || failed < 3 {
					t.Errorf("errors: %v", f.errs)
				}
				f.close()
			})
		})
	}
}

// without is MPI of a library that cannot connect jobs.
type without struct{ boundary.MPI }

func (without) OpenPort() (string, error)             { return "", boundary.ErrNoConnections }
func (without) Accept(string) (boundary.Comm, error)  { return nil, boundary.ErrNoConnections }
func (without) Connect(string) (boundary.Comm, error) { return nil, boundary.ErrNoConnections }

// Proxies end with an error when their application has died. The processes of an application go on without their
// proxies, and end with an error.
func TestOtherJobDies(t *testing.T) {
	for _, proxiesDie := range []bool{false, true} {
		t.Run(fmt.Sprint(proxiesDie), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := connect(t, fake.Options{Eager: 4096, Unexpected: 64}, nil)
				if err := errors.Join(f.errs...); err != nil {
					t.Fatal(err)
				}
				defer f.close()
				if !proxiesDie {
					for rank := range f.clients.Size() {
						f.clients.Kill(rank, fake.Hang)
					}
					if err := f.jobs[3].Finish(t.Context()); !errors.Is(err, lnd.ErrTimeout) {
						t.Errorf("the first proxy: %v", err)
					}
					return
				}
				for rank := range f.proxies.Size() {
					f.proxies.Kill(rank, fake.Hang)
				}
				nodes := []*node.Node{open(t, f.jobs[0]), open(t, f.jobs[1]), open(t, f.jobs[2])}
				time.Sleep(2 * job.DefaultTimeout)
				to := f.jobs[1].Self()
				if _, err := nodes[0].Ping(t.Context(), lnet.ProcessID{NID: to.NID, PID: to.PID}, node.PingOptions{}); err != nil {
					t.Errorf("ping of another client: %v", err)
				}
				var all sync.WaitGroup
				for k, n := range nodes {
					all.Go(func() {
						if err := errors.Join(f.jobs[k].Finish(t.Context()), n.Close(t.Context())); err != nil {
							t.Errorf("client %d: %v", k, err)
						}
						if err := f.jobs[k].Close(t.Context()); !errors.Is(err, lnd.ErrTimeout) {
							t.Errorf("client %d: close: %v", k, err)
						}
					})
				}
				all.Wait()
			})
		})
	}
}

// The name of a port is passed as a text, or in a file, which need not exist yet.
func TestPort(t *testing.T) {
	path := filepath.Join(t.TempDir(), "port")
	found := make(chan error, 1)
	go func() {
		port, err := job.Port("file:" + path)(t.Context())
		if err == nil && port != "a:b,c" {
			err = fmt.Errorf("port is %q", port)
		}
		found <- err
	}()
	if err := errors.Join(job.ListenFile(path)("other"), job.ListenFile(path)("a:b,c")); err != nil {
		t.Fatal(err)
	}
	if err := <-found; err != nil && !strings.Contains(err.Error(), "other") {
		t.Error(err)
	}
	if port, err := job.Port("a:b")(t.Context()); port != "a:b" || err != nil {
		t.Errorf("%q, %v", port, err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := job.Port("file:" + path)(t.Context()); err == nil {
		t.Error("a port has no name")
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(lnd.ErrTimeout)
	if _, err := job.Port("file:" + path + "x")(ctx); !errors.Is(err, lnd.ErrTimeout) {
		t.Errorf("without the file: %v", err)
	}
	if err := job.ListenFile(filepath.Join(path, "x"))("a"); err == nil {
		t.Error("wrote into a file as into a directory")
	}
}
