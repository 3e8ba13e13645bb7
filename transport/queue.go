package transport

import "strconv"

// QueueType identifies one of the six queues of a TM (transport 3.8). The values are part of the wire format
// of descriptors.
type QueueType uint8

// The queues of a TM.
const (
	MsgRecv         QueueType = iota // incoming messages
	MsgSend                          // outgoing messages
	PassiveBulkRecv                  // memory that a peer fills
	PassiveBulkSend                  // memory that a peer reads
	ActiveBulkRecv                   // memory to be filled with the data of a peer's PassiveBulkSend buffer
	ActiveBulkSend                   // data to be written to a peer's PassiveBulkRecv buffer

	// QueueTypes is the number of queues.
	QueueTypes = 6
)

var queueNames = [QueueTypes]string{"mRECV", "mSEND", "pRECV", "pSEND", "aRECV", "aSEND"}

// String returns the short name of the queue that tools print, such as mRECV (transport 10.1).
func (q QueueType) String() string {
	if q >= QueueTypes {
		return "queue " + strconv.Itoa(int(q))
	}
	return queueNames[q]
}

// receives reports whether buffers on the queue receive data. If they do, BufferEvent.Length is the length of
// the data. Otherwise Buffer.Length is.
func (q QueueType) receives() bool {
	return q == MsgRecv || q == PassiveBulkRecv || q == ActiveBulkRecv
}

// passive reports whether q is a passive queue: a peer moves the data, and needs the buffer's descriptor for
// that.
func (q QueueType) passive() bool { return q == PassiveBulkRecv || q == PassiveBulkSend }

// active reports whether q is an active queue: this TM moves the data, and needs the descriptor of the peer's
// buffer for that.
func (q QueueType) active() bool { return q == ActiveBulkRecv || q == ActiveBulkSend }
