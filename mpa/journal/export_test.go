package journal

import (
	"path/filepath"
	"testing"

	"github.com/sigma-scheduler/sigma/internal/durable"
)

// Break makes writes fail until repair is called.
func (s *Session) Break(t *testing.T) (repair func()) {
	t.Helper()
	closed, err := durable.OpenLog[*Record](filepath.Join(t.TempDir(), "log"), durable.Format[*Record]{}, nil)
	if err == nil {
		err = closed.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	whole := s.w.log
	s.w.log = closed
	return func() { s.w.log = whole }
}
