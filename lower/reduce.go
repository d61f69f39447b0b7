package lower

var reduceRows = []row{}
