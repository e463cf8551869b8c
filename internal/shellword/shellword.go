package shellword

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Quote is a word as a shell reads it.
func Quote(word string) string {
	plain := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("_-./:,+=@%", r)
	}
	switch {
	case strings.ContainsFunc(word, unicode.IsControl):
		quoted := strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(word)
		for _, r := range word {
			if unicode.IsControl(r) {
				quoted = strings.ReplaceAll(quoted, string(r), fmt.Sprintf(`\u%04x`, r))
			}
		}
		return "$'" + quoted + "'"
	case word == "" || strings.ContainsFunc(word, func(r rune) bool { return !plain(r) }):
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return word
}

// Split returns the words of a command with their quotes, so that joined by spaces they are the command.
func Split(command string) (words []string) {
	begin, quoted, escaped := 0, false, false
	for i, r := range command {
		switch {
		case escaped:
			escaped = false
		case r == '\\' && (!quoted || strings.Contains(command[begin:i], "$'")):
			escaped = true
		case r == '\'':
			quoted = !quoted
		case r == ' ' && !quoted:
			words, begin = append(words, command[begin:i]), i+1
		}
	}
	return append(words, command[begin:])
}

// Clean is a text of one line without the characters that would steer a terminal or order its text anew.
func Clean(text string) string {
	return strings.NewReplacer("\n", "�", "\t", "�").Replace(string(appendClean(nil, []byte(text))))
}

// A Writer writes texts of many lines, each as [Clean] has it.
type Writer struct{ Out io.Writer }

func (w Writer) Write(text []byte) (int, error) {
	if _, err := w.Out.Write(appendClean(nil, text)); err != nil {
		return 0, err
	}
	return len(text), nil
}

func appendClean(to, text []byte) []byte {
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		if unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r) {
			to = utf8.AppendRune(to, utf8.RuneError)
		} else {
			to = append(to, text[:n]...) // a part of a rune as it is: the rest is in the next write
		}
		text = text[n:]
	}
	return to
}
