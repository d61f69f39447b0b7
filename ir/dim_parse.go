package ir

// ParseDim reads what Dim.String prints: sums of products of whole numbers, symbols, and div, min, max and bcast calls.
func ParseDim(text string) (d Dim, err error) {
	l := &lexer{src: text}
	defer l.recover(&err)
	l.next()
	d = l.dim(0)
	if l.tok.kind != endOfText {
		l.fail("the end expected, not %v", l.tok)
	}
	return d, nil
}

func (l *lexer) dim(depth int) Dim {
	if depth > maxDepth {
		l.fail("calls nest more than %d deep", maxDepth)
	}
	var k int64
	var terms []term // put in order once, not with each
	for first := true; ; first = false {
		negative := false
		switch {
		case l.skip("-"):
			negative = true
		case l.skip("+"):
			if first {
				l.fail("a size cannot start with +")
			}
		case !first:
			return normal(k, terms)
		}
		product := l.factor(depth)
		for l.skip("*") {
			product = product.Mul(l.factor(depth))
		}
		if negative {
			product = product.scale(-1)
		}
		if k, terms = addSizes(k, product.k), append(terms, product.terms...); len(terms) > 2*maxTerms {
			terms = normal(0, terms).terms
		}
	}
}

func (l *lexer) factor(depth int) Dim {
	at := l.tok.at
	switch l.tok.kind {
	case number:
		return Dim{k: l.int64()}
	case quoted:
		return Sym(l.take(quoted, ""))
	}
	name := l.take(word, "a size")
	if !l.is("(") {
		return Sym(name)
	}
	var args []Dim
	l.listOf("(", ")", func() { args = append(args, l.dim(depth+1)) })
	if len(args) == 0 || name == atomOpNames[opFloorDiv] && len(args) != 2 {
		l.failAt(at, "%s of %d sizes", name, len(args))
	}
	switch name {
	case atomOpNames[opFloorDiv]:
		return args[0].Div(args[1])
	case atomOpNames[opMin]:
		return Min(args...)
	case atomOpNames[opMax]:
		return Max(args...)
	case atomOpNames[opBroadcast]:
		d := args[0]
		for _, x := range args[1:] {
			var err error
			if d, err = BroadcastDim(d, x); err != nil {
				l.failAt(at, "%w", err)
			}
		}
		return d
	}
	l.failAt(at, "sizes know no function %s", name)
	return Dim{}
}
