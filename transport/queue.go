package transport

import "strconv"

// QueueType is one of the six queues of a TM (transport 3.8). The values are part of the wire format of
// descriptors.
type QueueType uint8

// The queues of a TM.
const (
	MsgRecv         QueueType = iota // incoming messages
	MsgSend                          // outgoing messages
	PassiveBulkRecv                  // memory to be filled by a peer
	PassiveBulkSend                  // memory to be fetched by a peer
	ActiveBulkRecv                   // fetches data of a peer's PassiveBulkSend buffer
	ActiveBulkSend                   // fills a peer's PassiveBulkRecv buffer

	// QueueTypes is the number of queues.
	QueueTypes = 6
)

var queueNames = [QueueTypes]string{"mRECV", "mSEND", "pRECV", "pSEND", "aRECV", "aSEND"}

// String returns the short name that tools print (transport 10.1).
func (q QueueType) String() string {
	if q >= QueueTypes {
		return "queue " + strconv.Itoa(int(q))
	}
	return queueNames[q]
}

// receives reports whether the queue's buffers receive data. The length of the data is then in the event.
// Otherwise it is in the buffer.
func (q QueueType) receives() bool {
	return q == MsgRecv || q == PassiveBulkRecv || q == ActiveBulkRecv
}

// passive reports whether a peer moves the data, for which it needs the descriptor.
func (q QueueType) passive() bool { return q == PassiveBulkRecv || q == PassiveBulkSend }

// active reports whether this TM moves the data, for which it needs the peer's descriptor.
func (q QueueType) active() bool { return q == ActiveBulkRecv || q == ActiveBulkSend }
