package protocol

import "strconv"

// ConnType is the purpose of a connection, as seen by the side that states it: one side's BULK_OUT
// is the other side's BULK_IN (socklnd 2.1).
type ConnType int32

// The connection types. None is 0xffffffff on the wire. In an answer to a HELLO it means "refused,
// try again".
const (
	None    ConnType = -1
	Any     ConnType = 0
	Control ConnType = 1
	BulkIn  ConnType = 2
	BulkOut ConnType = 3
)

// Valid reports whether a connection can have the type: Any to BulkOut.
func (c ConnType) Valid() bool { return c >= Any && c <= BulkOut }

// Invert returns the type that the other side gives to the connection. It returns None if c is not
// Valid.
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
