package hostnet

import (
	"context"
	"time"
)

// Follow pauses at least minPause and at most maxPause before it begins again.
const (
	minPause = time.Second
	maxPause = time.Minute
)

// Follow calls watch, such as Host.Watch, with changed until ctx is done. When watch returns earlier, Follow calls
// failed if there was an error, and begins again after a pause. The first pause is a second, and each is twice as
// long as the one before, up to a minute. A watch that has lasted a minute starts this over.
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
