package recording

import "github.com/lnetd/lnetd/lnet"

// PingInfos returns all ping infos in a recording, encoded: the payloads of pushes and of replies to
// pings.
func (r *Recording) PingInfos() ([][]byte, error) {
	var infos, replies [][]byte
	var sinks []lnet.Handle // the handle in each reply
	asked := map[lnet.Handle]bool{}
	for _, c := range r.Conversations {
		units, err := c.Units()
		if err != nil {
			return nil, err
		}
		for i := range units {
			u := &units[i]
			switch {
			case u.IsPing():
				asked[u.Header.Handle] = true
			case u.IsPush():
				infos = append(infos, u.Payload)
			case u.Kind == KindMessage && u.Header.Type == lnet.MsgReply:
				replies, sinks = append(replies, u.Payload), append(sinks, u.Header.Handle)
			}
		}
	}
	for i, payload := range replies {
		if asked[sinks[i]] {
			infos = append(infos, payload)
		}
	}
	return infos, nil
}
