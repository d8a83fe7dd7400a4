module github.com/refwatch/refwatch/test/browser

go 1.26.0

require (
	github.com/chromedp/chromedp v0.23.0
	github.com/refwatch/refwatch v0.0.0
	go.uber.org/goleak v1.3.0
	k8s.io/api v0.36.3
	k8s.io/apimachinery v0.36.3
)

replace github.com/refwatch/refwatch => ../..
