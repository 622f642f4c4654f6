"""Which draw within a sweep: the ``step`` field of a stream. One number, one use, for ever."""

START = 0  # starting values of a factor; the row is the factor's number and its row
COUNTS = 2  # true counts and their allocation, row by row
NOISE_RATES = 3  # starting rates of the bessel method's noise, row by row
SCALE = 6  # scale moves, component by component
TRUE_COUNTS = 7  # posterior draws of true counts, after the fit
VISITED = 8  # true counts of cells visited one by one; the row is the cell
NOISE = 9  # noise behind a release whose alpha is not known, row by row
SHARES = 10  # tokens shared out over the remaining indices of a factorization; the row is the cell
FACTOR = 11  # any factor of a factorization; the row is the factor's number and its row
TIED_FACTOR = 12  # a factor on two axes, row after row; the row likewise
ALPHA = 13  # an alpha that is not known
VISITED_MANY = 16  # allocation of visited cells with many tokens; the row is the cell
PRIOR_SCALES = 17  # scales of a factor's rows; the row is the factor's number and its row
PRIOR_MEANS = 18  # means of a factor's components; the row is the factor's number and the component
PRIOR_LAWS = 19  # shapes and levels of the laws of scales; the row is 4 * the factor's number and which
RELOCATION = 20  # where a component is moved to in burn-in; rows are choices first, then the data's
NEW_GROUPS = 21  # groups of new rows that came without one, row by row
PREDICTIVE = 22  # posterior predictive draws of counts and of their releases; the row is the cell
PIT = 23  # uniforms that randomise the probability integral transform of counts; the row is the cell
COLLAPSED = 24  # topics of tokens in a collapsed pass of burn-in; the row is the pass and the row
DEVICE_LOOK = 40  # on a GPU: the leading bits of the uniforms of four cells; the row is the four's number
DEVICE_CELL = 41  # on a GPU: the true count of a cell; the row is the cell
DEVICE_TOKENS = 42  # on a GPU: allocation of a cell's tokens; the row is the cell
DEVICE_FACTOR = 43  # on a GPU: entries of a factor; the row is the factor's number and the entry
DEVICE_RECEIVERS = 44  # on a GPU: allocation of what an actor received from a community; the row is the pair
