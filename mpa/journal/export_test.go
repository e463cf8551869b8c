package journal

import "os"

// Break lets writes fail until they are repaired.
func (s *Session) Break() (repair func()) {
	whole := s.w.file
	s.w.file, _ = os.Open(os.DevNull) // not open for writing
	return func() { s.w.file = whole }
}
