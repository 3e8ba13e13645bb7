package fake_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

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
