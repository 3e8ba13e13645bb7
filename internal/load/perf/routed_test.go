package perf

import (
	"errors"
	"testing"
	"testing/synctest"
)

// An exchange that fails ends the measurement of a stream at once, with its error.
func TestStreamWithAFailedExchange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Clients{}
		result := make(chan error, 1)
		go func() {
			_, err := s.run(t.Context(), 3, 1, nil)
			result <- err
		}()
		synctest.Wait()
		broken := errors.New("broken")
		for range 2 {
			(&routedMessage{from: &routedClient{of: s}}).end(broken)
		}
		synctest.Wait()
		select {
		case err := <-result:
			if !errors.Is(err, broken) {
				t.Error(err)
			}
		default:
			t.Error("the stream has not ended")
		}
	})
}
