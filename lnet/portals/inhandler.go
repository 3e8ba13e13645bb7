package portals

import (
	"reflect"
	"runtime"
)

// drainPC is the address of the code of Table.drain.
var drainPC = reflect.ValueOf((*Table).drain).Pointer()

// drainSize is an upper bound for the size of that code, in bytes.
const drainSize = 1 << 16

// InHandler reports whether the calling goroutine is running a handler, of any table. Calls
// that block use it to return an error to a handler, because a message that waits for a
// handler which waits for that message would never end. InHandler inspects the goroutine's
// stack, which takes up to a microsecond, or more if the stack is deep. Events have no
// extra cost. It returns false in a goroutine that a handler has started.
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
