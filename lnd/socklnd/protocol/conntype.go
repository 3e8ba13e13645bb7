package protocol

import "strconv"

// ConnType is the type of a connection as one side sees it: a connection that is BULK_OUT for one side is
// BULK_IN for the other (socklnd 2.1).
type ConnType int32

// The connection types. None is 0xffffffff on the wire. In the answer to a HELLO it means that the connection
// is refused, and that the opener may try again.
const (
	None    ConnType = -1
	Any     ConnType = 0
	Control ConnType = 1
	BulkIn  ConnType = 2
	BulkOut ConnType = 3
)

// Valid reports whether c is a type that a connection can have: Any, Control, BulkIn or BulkOut.
func (c ConnType) Valid() bool { return c >= Any && c <= BulkOut }

// Invert returns the type that a connection has for the other side. It returns None if c is not Valid.
func (c ConnType) Invert() ConnType {
	switch c {
	case Any, Control:
		return c
	case BulkIn:
		return BulkOut
	case BulkOut:
		return BulkIn
	}
	return None
}

// String returns a name such as "CONTROL", or the number of an unknown type.
func (c ConnType) String() string {
	switch c {
	case None:
		return "NONE"
	case Any:
		return "ANY"
	case Control:
		return "CONTROL"
	case BulkIn:
		return "BULK_IN"
	case BulkOut:
		return "BULK_OUT"
	}
	return strconv.FormatInt(int64(c), 10)
}
