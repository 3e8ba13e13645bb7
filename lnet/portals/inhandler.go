package portals

import (
	"reflect"
	"runtime"
)

// drainEntry is where the code of Table.drain begins.
var drainEntry = reflect.ValueOf((*Table).drain).Pointer()

// drainSize is more than what the code of Table.drain takes, in bytes.
const drainSize = 1 << 16

// InHandler tells whether the goroutine that calls it is running a handler, of
// whatever table. Calls that wait for others ask it, so that a handler which makes
// one gets an error, and no message waits for a handler that waits for the message.
// It looks at the goroutine's stack, which takes up to a microsecond, more if that is
// deep; events pay nothing for it. A goroutine that a handler has started is none of
// its own.
func InHandler() bool {
	var room [64]uintptr
	for skip := 2; ; skip += len(room) { // Callers and InHandler
		k := runtime.Callers(skip, room[:])
		for _, pc := range room[:k] {
			if pc-drainEntry < drainSize && runtime.FuncForPC(pc-1).Entry() == drainEntry {
				return true
			}
		}
		if k < len(room) {
			return false
		}
	}
}
