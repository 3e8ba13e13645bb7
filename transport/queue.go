package transport

import "strconv"

// QueueType is one of the six queues of a TM (transport 3.8). The values are on the wire,
// in descriptors.
type QueueType uint8

// The queues that there are.
const (
	MsgRecv         QueueType = iota // messages that come
	MsgSend                          // messages that go
	PassiveBulkRecv                  // memory that a peer will fill
	PassiveBulkSend                  // memory that a peer will fetch
	ActiveBulkRecv                   // fetches what a peer has announced
	ActiveBulkSend                   // fills what a peer has announced

	// QueueTypes is how many there are.
	QueueTypes = 6
)

var queueNames = [QueueTypes]string{"mRECV", "mSEND", "pRECV", "pSEND", "aRECV", "aSEND"}

// String is the short name that tools print (transport 10.1).
func (q QueueType) String() string {
	if q >= QueueTypes {
		return "queue " + strconv.Itoa(int(q))
	}
	return queueNames[q]
}

// receives tells whether the length of what was moved is known from the event alone.
func (q QueueType) receives() bool {
	return q == MsgRecv || q == PassiveBulkRecv || q == ActiveBulkRecv
}

// passive tells whether a peer moves the data, which needs a descriptor for it.
func (q QueueType) passive() bool { return q == PassiveBulkRecv || q == PassiveBulkSend }

// active tells whether this side moves the data, for which it needs a descriptor.
func (q QueueType) active() bool { return q == ActiveBulkRecv || q == ActiveBulkSend }
