package hostnet

import (
	"context"
	"time"
)

// Limits of the pause after which Follow calls watch again.
const (
	minPause = time.Second
	maxPause = time.Minute
)

// Follow calls watch, for example Host.Watch, until ctx is done. watch calls changed after each change. If
// watch returns before ctx is done, Follow calls failed if there was an error, and calls watch again after a
// pause. The first pause is a second, and each pause is twice as long as the one before, up to a minute. After
// a watch that has lasted a minute, the pauses begin with a second again.
func Follow(ctx context.Context, watch func(ctx context.Context, changed func()) error, changed func(), failed func(error)) {
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		begun := time.Now()
		err := watch(ctx, changed)
		if err != nil && ctx.Err() == nil {
			failed(err)
		}
		if time.Since(begun) >= maxPause {
			pause = minPause
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}
