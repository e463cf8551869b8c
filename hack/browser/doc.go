// Package browser opens the pages that sigma writes in a headless Chromium. It
// is a module of its own, so that the client never enters the product's
// dependencies.
//
//	hack/browser/run.sh                        (builds sigma, then go test)
//	SIGMA_BROWSER=/path/to/chromium hack/browser/run.sh
//	SIGMA_SCREENSHOTS=DIR hack/browser/run.sh  (also writes pictures of the pages)
package browser
