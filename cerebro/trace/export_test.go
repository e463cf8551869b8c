package trace

import "io"

// NewEventReader reads the events that follow t.
func NewEventReader(r io.Reader, t *Trace) (*eventReader, error) {
	apps, requests := map[string]int32{}, map[string]int32{}
	for i, app := range t.Instance.Apps {
		apps[app.Name] = int32(i)
	}
	for i, request := range t.Requests {
		requests[request.Name] = int32(i)
	}
	return newEventReader(r, t, apps, requests)
}
