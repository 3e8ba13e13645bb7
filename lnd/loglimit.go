package lnd

import (
	"sync"
	"time"
)

// LogLimit bounds what others can make a driver or a node log: each key, which
// names a peer and what happened, may be logged once per interval, and so many
// keys at most. What is not logged is counted, and told with what is. The zero
// value is of no use; it is safe for concurrent use.
type LogLimit[K comparable] struct {
	interval time.Duration
	most     int

	mu   sync.Mutex // guards what follows
	keys map[K]logged
	// expire is when some key of a full table may next be forgotten; others counts
	// what was not logged for lack of room.
	expire time.Time
	others uint64
}

// logged is when a key was logged, and how often it was not since.
type logged struct {
	at      time.Time
	skipped uint64
}

// NewLogLimit makes a limit of one message per key and interval, and of most
// keys within an interval: 1 or more.
func NewLogLimit[K comparable](interval time.Duration, most int) *LogLimit[K] {
	return &LogLimit[K]{interval: interval, most: most, keys: make(map[K]logged)}
}

// Pass tells whether a message about the key may be logged now, and then how
// many have not been: about the key since its last one, and about keys for which
// there was no room.
func (l *LogLimit[K]) Pass(now time.Time, key K) (skipped, others uint64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k, known := l.keys[key]
	if known && now.Sub(k.at) < l.interval {
		k.skipped++
		l.keys[key] = k
		return 0, 0, false
	}
	if !known && !l.room(now) {
		l.others++
		return 0, 0, false
	}
	others, l.others = l.others, 0
	l.keys[key] = logged{at: now}
	return k.skipped, others, true
}

// room tells whether there is room for one more key, after forgetting those that
// may be logged again. Among them may be some with skipped messages, which then
// count as others.
func (l *LogLimit[K]) room(now time.Time) bool {
	if len(l.keys) < l.most {
		return true
	}
	if now.Before(l.expire) {
		return false
	}
	l.expire = now.Add(l.interval)
	for key, k := range l.keys {
		end := k.at.Add(l.interval)
		if now.Before(end) {
			if end.Before(l.expire) {
				l.expire = end
			}
			continue
		}
		l.others += k.skipped
		delete(l.keys, key)
	}
	return len(l.keys) < l.most
}
