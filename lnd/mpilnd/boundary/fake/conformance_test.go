package fake_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd/mpilnd/boundary"
	"github.com/lnetd/lnetd/lnd/mpilnd/boundary/boundarytest"
	"github.com/lnetd/lnetd/lnd/mpilnd/boundary/fake"
)

func TestConformance(t *testing.T) {
	for name, o := range map[string]fake.Options{
		"Synchronous": {},
		"Eager":       {Eager: 4 << 10, Unexpected: 1 << 20},
		"Hard":        {Seed: 1, Delay: 100 * time.Microsecond, Shuffle: true, Eager: 4 << 10, Unexpected: 8, MaxTag: 1<<31 - 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, c := range boundarytest.Cases() {
				t.Run(c.Name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						job := fake.New(boundarytest.Ranks, o)
						var ranks sync.WaitGroup
						for k := range job.Size() {
							ranks.Go(func() {
								m := job.Rank(k)
								err := c.Run(m, time.Hour)
								if err == nil {
									err = m.Close()
								}
								if err != nil {
									t.Error(err)
									job.Close()
								}
							})
						}
						ranks.Wait()
					})
				})
			}
		})
	}
}

func TestConnections(t *testing.T) {
	for name, o := range map[string]fake.Options{
		"Synchronous": {},
		"Hard":        {Seed: 1, Delay: 100 * time.Microsecond, Shuffle: true, Eager: 4 << 10, Unexpected: 8, MaxTag: 1<<31 - 1},
	} {
		for _, c := range boundarytest.Connections() {
			t.Run(name+"/"+c.Name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					accepting := fake.New(2, o)
					connecting := accepting.Beside(3, o)
					ports := make(chan string, 2)
					var ranks sync.WaitGroup
					start := func(job *fake.Job, s boundarytest.Side) {
						for k := range job.Size() {
							ranks.Go(func() {
								m := job.Rank(k)
								err := c.Run(m, s, time.Hour)
								if err == nil {
									err = m.Close()
								}
								if err != nil {
									t.Error(err)
									accepting.Close()
									connecting.Close()
								}
							})
						}
					}
					start(accepting, boundarytest.Side{Publish: func(port string) error { ports <- port; return nil }})
					start(connecting, boundarytest.Side{Lookup: func() (string, error) { return <-ports, nil }})
					ranks.Wait()
				})
			})
		}
	}
}

func TestSpawning(t *testing.T) {
	for name, o := range map[string]fake.Options{
		"Synchronous": {},
		"Hard":        {Seed: 1, Delay: 100 * time.Microsecond, Shuffle: true, Eager: 4 << 10, Unexpected: 8, MaxTag: 1<<31 - 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ranks sync.WaitGroup
				start := func(job *fake.Job, s boundarytest.Side) {
					for k := range job.Size() {
						ranks.Go(func() {
							m := job.Rank(k)
							err := boundarytest.Spawning().Run(m, s, time.Hour)
							if err == nil {
								err = m.Close()
							}
							if err != nil {
								t.Error(err)
								job.Close()
							}
						})
					}
				}
				o.Spawn = func(p boundary.Program, job *fake.Job) {
					if p.Path != "proxy" {
						t.Errorf("spawns %+v", p)
					}
					start(job, boundarytest.Side{Spawned: true})
				}
				start(fake.New(3, o), boundarytest.Side{Program: boundary.Program{Path: "proxy", Hosts: []string{"a", "b"}}})
				ranks.Wait()
			})
		})
	}
}

// A job of a library that cannot connect jobs gets an error, as does one that connects to no port. A rank that dies while its job connects makes the other job
// fail, or wait until it is ended.
func TestConnectionFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if _, err := fake.New(1, fake.Options{NoConnections: true}).Rank(0).OpenPort(); !errors.Is(err, boundary.ErrNoConnections) {
			t.Error(err)
		}
		if _, err := fake.New(1, fake.Options{}).Rank(0).Connect("no port"); err == nil {
			t.Error("connected to no port")
		}
		if _, err := fake.New(1, fake.Options{}).Rank(0).Spawn(boundary.Program{}); !errors.Is(err, boundary.ErrNoConnections) {
			t.Error(err)
		}
	})
	for name, fate := range map[string]fake.Fate{"Hang": fake.Hang, "Fail": fake.Fail} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				accepting := fake.New(1, fake.Options{})
				connecting := accepting.Beside(2, fake.Options{})
				port, err := accepting.Rank(0).OpenPort()
				if err != nil {
					t.Fatal(err)
				}
				result := make(chan error, 2)
				for k := range 2 {
					go func() {
						_, err := connecting.Rank(k).Connect(port)
						result <- err
					}()
				}
				synctest.Wait()
				accepting.Kill(0, fate)
				synctest.Wait()
				if n := len(result); fate == fake.Hang && n > 0 || fate == fake.Fail && n != 1 && n != 2 {
					t.Errorf("%d ranks of the other job have returned", n)
				}
				connecting.Close()
				for range 2 {
					if err := <-result; err == nil {
						t.Error("connected")
					}
				}
			})
		})
	}
}
