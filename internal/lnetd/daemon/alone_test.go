package daemon

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// Only one document is processed at a time. A document whose client leaves while it waits is not
// processed.
func TestOneDocumentAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{documents: newChanges()}
		release, begun := make(chan struct{}), 0
		work := func(ctx context.Context) <-chan error {
			ended := make(chan error, 1)
			go func() {
				ended <- b.alone(ctx, &api.Document{Text: string(make([]byte, collectFrom))}, func() { begun++; <-release })
			}()
			synctest.Wait()
			return ended
		}
		first := work(t.Context())
		ctx, leave := context.WithCancel(t.Context())
		gone, last := work(ctx), work(t.Context())
		leave()
		if err := <-gone; !errors.Is(err, context.Canceled) || begun != 1 {
			t.Errorf("%v, %d begun", err, begun)
		}
		close(release)
		if err := errors.Join(<-first, <-last); err != nil || begun != 2 {
			t.Errorf("%v, %d begun", err, begun)
		}
	})
}

// While the steps of a small document are applied, queries with documents are answered.
func TestQueriesWhileStepsAreApplied(t *testing.T) {
	r := startNode(t, parse(t, "lnetd: {networks: 'tcp(eth0)'}\n")).ready(t)
	asked := 0
	r.node.failStep = func(config.Step) error {
		asked++
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, _, err := r.Described(ctx, api.Document{Name: "query.yaml", Text: "net: [{net type: tcp}]\n"})
		return err
	}
	change := api.ConfigurationChange{Document: api.Document{Name: "change.yaml", Text: "global: {numa_range: 3}\n"}, Mode: api.ModeAdd}
	if _, err := r.ChangeConfiguration(t.Context(), change); err != nil || asked == 0 {
		t.Errorf("%v, after %d steps", err, asked)
	}
}
