package recommender

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// The page says what to do about each reason for which a condition reports that nothing was
// measured or decided.
func TestPageHasReasons(t *testing.T) {
	page, err := os.ReadFile("../../docs/mpa.md")
	require.NoError(t, err)
	files, err := filepath.Glob("../collect/*.go")
	require.NoError(t, err)
	// The reasons of answers and problems, and the arguments of refuse and add.
	reason := regexp.MustCompile(`(?:reason: |Problem\{\w+, |refuse\(|add\(|return |, )"((?:[A-Z][a-z]+|API|A){2,})"[,})\n]`)
	found := 0
	for _, file := range append(files, "refuse.go", "decide.go") {
		if regexp.MustCompile(`_test\.go$`).MatchString(file) {
			continue
		}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range reason.FindAllSubmatch(text, -1) {
			if word := string(m[1]); word != "StatefulSet" && word != "ReplicaSet" && word != "ReplicaSetList" {
				found++
				require.Regexp(t, `\b`+word+`\b`, string(page), "%s gives this reason", file)
			}
		}
	}
	require.Greater(t, found, 25)
}
