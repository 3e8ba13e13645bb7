package portals

import (
	"reflect"
	"runtime"
)

// drainPC is the address of the machine code of Table.drain, in which all handlers run.
var drainPC = reflect.ValueOf((*Table).drain).Pointer()

// drainSize is an upper bound for the size of the machine code of Table.drain, in bytes.
const drainSize = 1 << 16

// InHandler reports whether the calling goroutine is running a handler of any table. Calls
// that block use it and return an error in a handler: a handler that waits for a message
// which can only be delivered after the handler has returned would wait forever. InHandler
// inspects the goroutine's stack, which takes up to a microsecond, or more if the stack is
// deep. It makes the delivery of events no slower. It returns false in a goroutine that a
// handler has started.
func InHandler() bool {
	var callers [64]uintptr
	for skip := 2; ; skip += len(callers) { // 2 skips Callers and InHandler
		k := runtime.Callers(skip, callers[:])
		for _, pc := range callers[:k] {
			if pc-drainPC < drainSize && runtime.FuncForPC(pc-1).Entry() == drainPC {
				return true
			}
		}
		if k < len(callers) {
			return false
		}
	}
}
